"""Pieces of an array that are read, diffused and written while others are on their way.

On a GPU, a panel has a stream to itself, of two in turn: it is copied to the GPU, diffused and
copied back in that order. Panels are diffused one after the other. So the copies of one fall into
the time in which the other is diffused, and the host reads and writes files meanwhile.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any, TypeVar

from numpy.typing import NDArray
from torch import Tensor, cuda

from ...kernels.host_copy import HostCopy
from .flow import ColumnFlow

Array = NDArray[Any]
T = TypeVar("T")

_IN_FLIGHT = 2


def read_ahead(pieces: Sequence[slice], read: Callable[[slice], T]) -> Iterator[tuple[slice, T]]:
    """Yield every piece and what was read of it; the next one is read meanwhile, in a thread.

    Example:
        >>> [found for _, found in read_ahead([slice(0, 2), slice(2, 3)], "abc".__getitem__)]
        ['ab', 'c']
    """
    with ThreadPoolExecutor(1) as reader:
        coming = [reader.submit(read, piece) for piece in pieces[:1]]
        for at, piece in enumerate(pieces):
            found = coming.pop().result()
            coming += [reader.submit(read, following) for following in pieces[at + 1 : at + 2]]
            yield piece, found


def diffuse_panels(
    flow: ColumnFlow, coming: Iterable[tuple[slice, Tensor]]
) -> Iterator[tuple[slice, Array]]:
    """Diffuse panels [N, C] in their order -> [S N, C]; on a GPU the next are on their way then.

    The panels lie in memory that a GPU can read (`ColumnFlow.empty_panel`).
    """
    if flow.device.type != "cuda":
        for columns, values in coming:
            yield columns, flow.diffuse(columns, values.to(flow.device)).cpu().numpy()
        return
    streams = cycle([cuda.Stream(flow.device) for _ in range(_IN_FLIGHT)])
    ready = cuda.current_stream(flow.device).record_event()  # the operator is made
    sent: deque[tuple[slice, HostCopy]] = deque()
    for columns, values in coming:
        stream = next(streams)
        with cuda.stream(stream):
            x = values.to(flow.device, non_blocking=True)
            stream.wait_event(ready)
            out = flow.diffuse(columns, x)
            ready = stream.record_event()
            sent.append((columns, HostCopy(out)))
        if len(sent) == _IN_FLIGHT:
            done, copy = sent.popleft()
            yield done, copy.read().numpy()
    for done, copy in sent:
        yield done, copy.read().numpy()
