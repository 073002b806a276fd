"""The heat flow of a graph, prepared once for all columns of an array, and panels on their way.

Pieces of the array are read, diffused and written while others are on their way. On a GPU, a panel
has a stream to itself, of two in turn: it is copied to the GPU, diffused and copied back in that
order. Panels are diffused one after the other. So the copies of one fall into the time in which
the other is diffused, and the host reads and writes files meanwhile.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, cuda

from ..._checks import as_argument, check_instance
from ..._fingerprint import digest
from ...diffusion.evolve import heat_operator, series_coefficients, sum_series
from ...diffusion.options import HeatOptions
from ...diffusion.times import is_single, read_times
from ...graph import GraphStructure
from ...graph.reader import GraphReader
from ...operators import HeatOperator
from .panels import Source

Array = NDArray[Any]
T = TypeVar("T")

_READER = GraphReader(keeps=False)  # it remembers nothing
_OPTIONS = ("tol", "normalization", "backend")
_CACHE_LINE = 64  # bytes: kernels work on as many columns at least
_IN_FLIGHT = 2  # panels


class ColumnFlow(NamedTuple):
    """Diffuses columns of an array [N, D] at S times."""

    operator: HeatOperator
    coefficients: Tensor  # [K + 1, S, 1 or D]
    num_nodes: int
    channels: int
    dtype: torch.dtype  # of the array
    device: torch.device  # where columns are diffused
    has_scales: bool  # whether the result has an axis for them

    @property
    def scales(self) -> int:
        """Count the times: S."""
        return self.coefficients.size(1)

    @property
    def unit(self) -> int:
        """Return the fewest columns that are diffused together."""
        return max(1, min(self.channels, _CACHE_LINE // self.dtype.itemsize))

    @property
    def itemsize(self) -> int:
        """Return the bytes of a number in the type that is computed in, or in that of the array."""
        return max(self.dtype.itemsize, self.coefficients.dtype.itemsize)

    def empty_panel(self, columns: slice) -> Tensor:
        """Take memory for some columns [N, C]; for a GPU, memory that it reads by itself."""
        shape = self.num_nodes, columns.stop - columns.start
        return torch.empty(shape, dtype=self.dtype, pin_memory=self.device.type == "cuda")

    @torch.no_grad()
    def diffuse(self, columns: slice, x: Tensor) -> Tensor:
        """Diffuse some columns [N, C], on the device -> [S N, C]."""
        is_shared = self.coefficients.size(-1) == 1
        coefficients = self.coefficients if is_shared else self.coefficients[..., columns]
        return sum_series(x, self.operator, coefficients).reshape(-1, x.size(1))

    def warm_up(self) -> None:
        """Diffuse a few columns by three terms, so that all that is prepared once is prepared."""
        x = torch.zeros(self.num_nodes, self.unit, dtype=self.dtype, device=self.device)
        short = self._replace(coefficients=self.coefficients[:3])
        short.diffuse(slice(0, self.unit), x)


def column_flow(
    source: Source,
    edge_index: Any,
    t: float | Tensor,
    edge_weight: Tensor | None,
    options: HeatOptions,
    device: torch.device,
) -> tuple[ColumnFlow, Mapping[str, str]]:
    """Make the flow, and a text for every argument on which the result depends.

    The graph itself is forgotten: the operator is all that is needed.
    """
    num_nodes, channels = source.shape
    dtype = torch.from_numpy(np.empty(0, source.dtype)).dtype
    with torch.no_grad(), as_argument("source", "x"):
        # A column stands for all of them: only type and shape of the signal matter here.
        column = torch.zeros(num_nodes, 1, dtype=dtype)
        structure, weight = _READER.read(edge_index, column, edge_weight)
        check_instance("edge_index", structure, GraphStructure, "a whole graph")
        edges = torch.stack(structure.edges)
        given = {"edge_index": edges, "edge_weight": weight}
        settings = {name: "None" if v is None else digest(v) for name, v in given.items()}
        if device.type != "cpu":
            structure = GraphStructure(edges.flip(0).to(device), num_nodes)
            weight = weight if weight is None else weight.to(device)
        times = read_times(t, channels)
        operator = heat_operator(structure, weight, dtype, times, options)
        coefficients = series_coefficients(operator, times, options, dtype).to(device)
    has_scales = not is_single(t)
    settings |= {
        "source": f"{source.dtype} {list(source.shape)}, {source.stamp}",
        "t": f"{times.value.tolist()}{'' if has_scales else ' without an axis'}",
        **{name: repr(getattr(options, name)) for name in _OPTIONS},
    }
    flow = ColumnFlow(operator, coefficients, num_nodes, channels, dtype, device, has_scales)
    return flow, settings


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


class HostCopy:
    """A copy on the host that a GPU makes in its turn: nobody waits before the numbers are read."""

    def __init__(self, values: Tensor) -> None:
        shape, dtype = values.shape, values.dtype
        self._host = torch.empty(shape, dtype=dtype, device="cpu", pin_memory=True)
        self._host.copy_(values, non_blocking=True)
        self._event = cuda.current_stream(values.device).record_event()

    def read(self) -> Tensor:
        """Wait until the numbers are there, not for work that was queued after them."""
        self._event.synchronize()
        return self._host


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
