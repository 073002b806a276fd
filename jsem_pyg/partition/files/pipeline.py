"""Panels on their way through a GPU: one is diffused while others are copied, there and back.

A panel has a stream to itself, of two in turn: it is copied to the GPU, diffused and copied back in
that order. Panels are diffused one after the other. So the copies of one fall into the time in
which the other is diffused, and the host reads and writes files meanwhile.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import cycle
from typing import Any

from numpy.typing import NDArray
from torch import Tensor, cuda

from ...kernels.host_copy import HostCopy
from .flow import ColumnFlow

Array = NDArray[Any]

_IN_FLIGHT = 2


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
