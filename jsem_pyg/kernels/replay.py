"""CUDA graphs of whole passes: the host launches a pass at once, not a kernel for each term.

A graph reads and writes memory of its own. So inputs are copied into it before it is replayed, and
results are copied out of it: the next replay may come before the last result was used. A pattern
keeps the graphs of its last few kinds of calls. A call of a new kind runs as it is: many patterns
are seen only once. Nothing is captured where memory is short, or while the caller captures.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor, cuda

from .csr import CSR
from .fused import SWITCHES
from .torch_func import lasting

_DEVICE = "cuda"
_MOST = 4  # graphs of a pattern: of two passes, with and without gradients
_SHARE = 8  # of the free memory, all inputs may take this part: a pass needs a few times as much

Results = tuple[Any, ...]  # tensors, or None
Work = Callable[..., Results]  # of a pattern, tensors and options


def replayed(work: Work, csr: CSR, given: Sequence[Tensor], *options: Hashable) -> Results:
    """Compute ``work(csr, *given, *options)``, by a CUDA graph if such a call was seen before."""
    is_on_gpu = given[0].device.type == _DEVICE
    if not (SWITCHES.replay and is_on_gpu) or cuda.is_current_stream_capturing():
        return work(csr, *given, *options)
    return csr.derived(_Graphs).run(work, csr, given, options)


class _Graph(NamedTuple):
    """A captured call: from its own inputs to its own results."""

    graph: cuda.CUDAGraph
    inputs: list[Tensor]
    results: Results

    def replay(self, given: Sequence[Tensor]) -> Results:
        for own, each in zip(self.inputs, given, strict=True):
            own.copy_(each)
        self.graph.replay()
        return tuple(None if each is None else each.clone() for each in self.results)


class _Graphs:
    """The graphs of a pattern, by the kind of the call; None for kinds without a graph."""

    def __init__(self, csr: CSR | None = None) -> None:
        self._known: OrderedDict[Hashable, _Graph | None] = OrderedDict()
        self._lock = Lock()  # threads share the memory of a graph

    def __reduce__(self) -> tuple[Any, ...]:
        return _Graphs, ()  # copies of a pattern begin anew

    def run(self, work: Work, csr: CSR, given: Sequence[Tensor], options: Any) -> Results:
        shapes = tuple((each.shape, each.dtype) for each in given)
        # Work of one stream is in order; a graph of another one would not wait for it.
        stream = cuda.current_stream(given[0].device).cuda_stream
        kind = work, options, shapes, stream, tuple(SWITCHES.__dict__.values())
        with self._lock:
            is_new = kind not in self._known
            graph = self._known.pop(kind, None)
            if graph is None and not is_new and _has_room(given):
                graph = _capture(work, csr, given, options)
            self._known[kind] = graph  # the newest is the last
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
            if graph is not None:
                return graph.replay(given)
        return work(csr, *given, *options)


def _has_room(given: Sequence[Tensor]) -> bool:
    free, _ = cuda.mem_get_info(given[0].device)
    return _SHARE * sum(each.numel() * each.element_size() for each in given) <= free


@lasting
def _capture(work: Work, csr: CSR, given: Sequence[Tensor], options: Any) -> _Graph:
    """Capture a call, after a first one that compiles kernels for memory of a graph's own."""
    inputs = [each.clone(memory_format=torch.contiguous_format) for each in given]
    work(csr, *inputs, *options)
    graph = cuda.CUDAGraph()
    # Other threads may go on, such as those that load data.
    with torch.no_grad(), cuda.graph(graph, capture_error_mode="thread_local"):
        results = work(csr, *inputs, *options)
    return _Graph(graph, inputs, results)
