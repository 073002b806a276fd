"""The heat flow of a graph, prepared once for all columns of an array."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..._checks import as_argument, check_edge_vector, check_finite, check_instance
from ..._fingerprint import digest
from ...diffusion.evolve import series_coefficients, sum_series
from ...diffusion.heat import heat_operator
from ...diffusion.options import HeatOptions
from ...diffusion.times import is_single, read_times
from ...graph import GraphStructure
from ...graph.prepare import GraphReader
from ...operators import HeatOperator
from .memory import Sizes
from .source import Source

Array = NDArray[Any]

_READER = GraphReader(size=0)  # it remembers nothing
_SHORT = 3  # terms: any number of them takes as much memory as these


class ColumnFlow(NamedTuple):
    """Diffuses columns."""

    operator: HeatOperator
    coefficients: Tensor  # [K + 1, S, 1 or D]
    sizes: Sizes
    dtype: torch.dtype  # of the columns
    has_scales: bool  # whether the result has an axis for them

    def diffuse(self, columns: slice, values: Array) -> Array:
        """Diffuse some columns [N, C] -> [S N, C]."""
        x = torch.from_numpy(values)
        with torch.no_grad():
            out = sum_series(x, self.operator, self._of(columns))
        return out.reshape(-1, values.shape[1]).numpy()

    def try_out(self, count: int) -> None:
        """Diffuse `count` columns by a few terms, so that their memory can be measured."""
        count = min(count, self.sizes.channels)
        x = torch.ones(self.sizes.num_nodes, count, dtype=self.dtype)
        with torch.no_grad():
            sum_series(x, self.operator, self._of(slice(0, count))[:_SHORT])

    def _of(self, columns: slice) -> Tensor:
        """The coefficients of some of the D channels."""
        is_shared = self.coefficients.size(-1) == 1
        return self.coefficients if is_shared else self.coefficients[..., columns]


def column_flow(
    source: Source,
    edge_index: Any,
    t: float | Tensor,
    edge_weight: Tensor | None,
    conductance: Tensor | None,
    options: HeatOptions,
) -> tuple[ColumnFlow, Mapping[str, str]]:
    """The flow, and a text for every argument on which the result depends.

    The graph itself is forgotten: the operator is all that is needed.
    """
    num_nodes, channels = source.shape
    dtype = torch.from_numpy(np.empty(0, source.dtype)).dtype
    with as_argument("source", "x"):
        # A column stands for all of them: only type and shape of the signal matter here.
        column = torch.zeros(num_nodes, 1, dtype=dtype)
        times = read_times(_detached(t), channels)
        structure, weight = _READER.read(edge_index, column, _detached(edge_weight))
        check_instance("edge_index", structure, GraphStructure, "a whole graph")
        assert isinstance(structure, GraphStructure)
        if conductance is not None:
            conductance = _checked_conductance(conductance, structure.num_edges)
        operator = heat_operator(structure, weight, dtype, times, options, conductance)
        coefficients = series_coefficients(operator, times, options, dtype)
    sizes = Sizes(num_nodes, channels, times.value.size(0), source.dtype.itemsize)
    has_scales = not is_single(t)
    graph = structure.csr.rowptr, structure.csr.col, structure.slot
    settings = {
        "source": source.fingerprint(),
        "t": f"{times.value.tolist()}{'' if has_scales else ' without an axis'}",
        "edge_index": ", ".join(map(digest, graph)),
        "edge_weight": "None" if weight is None else digest(weight),
        "conductance": "None" if conductance is None else digest(conductance),
        **{name: repr(getattr(options, name)) for name in _OPTIONS},
    }
    flow = ColumnFlow(operator, coefficients, sizes, dtype, has_scales)
    return flow, settings


_OPTIONS = ("degree", "tol", "normalization", "backend")


def _checked_conductance(conductance: Tensor, num_edges: int) -> Tensor:
    check_edge_vector("conductance", conductance, num_edges)
    check_finite("conductance", conductance)
    if bool(((conductance < 0) | (conductance > 1)).any()):
        low, high = float(conductance.min()), float(conductance.max())
        raise ValueError(
            f"Expected 'conductance' to lie in [0, 1] (got values from {low} to {high})."
        )
    return conductance.detach()


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value
