"""The heat flow of a graph, prepared once for all columns of an array."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..._checks import as_argument, check_instance
from ..._fingerprint import digest
from ...diffusion.evolve import heat_operator, series_coefficients, sum_series
from ...diffusion.options import HeatOptions
from ...diffusion.times import is_single, read_times
from ...graph import GraphStructure
from ...graph.reader import GraphReader
from ...operators import HeatOperator
from .source import Source

_READER = GraphReader(keeps=False)  # it remembers nothing
_OPTIONS = ("degree", "tol", "normalization", "backend")
_CACHE_LINE = 64  # bytes: kernels work on as many columns at least


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
