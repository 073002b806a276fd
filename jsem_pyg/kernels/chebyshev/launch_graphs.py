"""Recorded launches: a pass of many small kernels, replayed as one CUDA graph.

A small graph's term takes less time on a GPU than launching its kernel from Python does. A pass
that is met for the second time, with inputs of the same shapes on the same pattern, is therefore
recorded on memory of its own; from then on its inputs are copied there, the launches replayed, and
the results copied out.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

_KEPT = 8  # recordings of a pattern: the degree of a series may change while its time is learned


class Pass(Protocol):
    """Launches on memory that stays the same, however often they run."""

    def launch(self) -> tuple[Tensor, ...]:
        """Run them; the tensors that hold the results."""


class _Recording(NamedTuple):
    """A pass on its own copies of the inputs."""

    inputs: tuple[Tensor | None, ...]
    results: tuple[Tensor, ...]
    replay: Callable[[], Any]
    launches: Pass  # which owns the memory that the graph writes to


# By the kind of the pass and the shapes of its inputs; None for one that was met once.
Recordings = OrderedDict[Any, _Recording | None]


class LaunchGraphs:
    """Runs passes, from recordings where that is enabled.

    Attributes:
        is_enabled: whether to record at all; recordings made so far are kept.
        max_bytes: the largest input that is recorded; launching takes no notable part of the time
            of larger ones, whose copies would cost memory.
    """

    def __init__(self, is_enabled: bool = False, max_bytes: int = 128 << 20) -> None:
        self.is_enabled, self.max_bytes = is_enabled, max_bytes

    def run(
        self, kind: Callable[..., Pass], pattern: Any, inputs: Sequence[Tensor | None]
    ) -> tuple[Tensor, ...]:
        """The results of ``kind(pattern, *inputs).launch()``, in memory that is the caller's.

        Recordings are kept in ``pattern.recordings``, so that they go when their pattern goes.
        """
        inputs = tuple(each if each is None else each.contiguous() for each in inputs)
        if not self._may_record(inputs):
            return kind(pattern, *inputs).launch()
        known: Recordings = pattern.recordings
        key = (kind, *(each if each is None else (each.shape, each.dtype) for each in inputs))
        if key not in known:
            known[key] = None  # met once; that run also compiles the kernels
            while len(known) > _KEPT:
                known.popitem(last=False)
            return kind(pattern, *inputs).launch()
        recording = known[key] or _record(kind, pattern, inputs)
        known[key] = recording
        known.move_to_end(key)
        for own, given in zip(recording.inputs, inputs, strict=True):
            if own is not None and given is not None:
                own.copy_(given)
        recording.replay()
        return tuple(each.clone() for each in recording.results)

    def _may_record(self, inputs: Sequence[Tensor | None]) -> bool:
        if not self.is_enabled:
            return False
        tensors = [each for each in inputs if each is not None]
        if tensors[0].is_cuda and torch.cuda.is_current_stream_capturing():
            return False  # a graph of somebody else's, to which these launches belong
        return max(each.numel() * each.element_size() for each in tensors) <= self.max_bytes


def _record(kind: Callable[..., Pass], pattern: Any, inputs: Sequence[Tensor | None]) -> _Recording:
    own = tuple(each if each is None else each.detach().clone() for each in inputs)
    launches = kind(pattern, *own)
    if not pattern.col.is_cuda:  # in the interpreter there is nothing to record, only to rerun
        return _Recording(own, launches.launch(), launches.launch, launches)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        results = launches.launch()
    return _Recording(own, results, graph.replay, launches)
