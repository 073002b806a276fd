"""The reader of complexes: edges, triangles and weights, prepared or remembered, and checked."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._checks import (
    check_dense,
    check_device,
    check_edge_vector,
    check_finite,
    check_float,
    check_signal_range,
    numbers_of,
)
from .prepare import Reader
from .simplicial_structure import SimplicialStructure


class PreparedComplex(NamedTuple):
    """A complex in one call, with what its edges and triangles weigh."""

    structure: SimplicialStructure
    edge_weight: Tensor | None  # [M]
    triangle_weight: Tensor | None  # [F]


class SimplicialReader(Reader):
    """Reads complexes: the only way from edges and triangles to a structure."""

    def read(
        self,
        edge_index: Any,
        x: Tensor,
        triangles: Tensor | None = None,
        edge_weight: Tensor | None = None,
        triangle_weight: Tensor | None = None,
    ) -> PreparedComplex:
        """Prepare the complex of flows x [..., E, D], unless it is, and check what comes with it.

        Args:
            edge_index: [2, E], or a :class:`SimplicialStructure`.
            x: the signal, which is checked as well.
            triangles: [3, F] or None.
            edge_weight: [E] or None.
            triangle_weight: [F] or None.

        Raises:
            TypeError: if an argument is of the wrong type.
            ValueError: if the complex is malformed, or sizes, devices or values do not fit.
        """
        structure = self._structure(edge_index, triangles)
        check_device("edge_index", structure.device, x)
        structure.check_flow_shape(x)
        self._check(structure, "x", x, x, lambda x: _check_flow(structure, x))
        if edge_weight is not None:
            check_edge_vector("edge_weight", edge_weight, structure.num_columns)
            check = structure.check_edge_weight
            self._check(structure, "edge_weight", edge_weight, x, check, self._weights)
            edge_weight = structure.mean_of_columns(self._widen(edge_weight))
        if triangle_weight is not None:
            _check_triangle_shape(structure, triangle_weight)
            self._check(
                structure, "triangle_weight", triangle_weight, x, _check_triangles, self._attrs
            )
        return PreparedComplex(structure, edge_weight, triangle_weight)

    def _structure(self, edge_index: Any, triangles: Tensor | None) -> SimplicialStructure:
        if isinstance(edge_index, SimplicialStructure):
            if triangles is not None:
                raise ValueError(
                    "Expected 'triangles' to be None where 'edge_index' is a SimplicialStructure, "
                    f"which has its own (got {type(triangles).__name__})."
                )
            return edge_index
        given = tuple(each for each in (edge_index, triangles) if each is not None)
        if not all(isinstance(e, Tensor) and e.layout == torch.strided for e in given):
            return SimplicialStructure(edge_index, triangles=triangles)  # which raises
        return self._structures.recall(
            given, lambda: SimplicialStructure(edge_index, triangles=triangles)
        )


def _check_flow(structure: SimplicialStructure, x: Tensor) -> None:
    check_signal_range("x", x)
    structure.check_flow(x)


def _check_triangle_shape(structure: SimplicialStructure, weight: Tensor) -> None:
    check_float("triangle_weight", weight)
    check_dense("triangle_weight", weight)
    if list(weight.shape) != [structure.num_triangles]:
        raise ValueError(
            f"Expected 'triangle_weight' to have shape [{structure.num_triangles}], one entry for "
            f"each triangle (got {list(weight.shape)}). Without 'triangles', these are all of the "
            "graph, in the order of SimplicialStructure(edge_index).triangles."
        )


def _check_triangles(weight: Tensor) -> None:
    check_finite("triangle_weight", weight)
    lowest = float(numbers_of(weight).min()) if weight.numel() else 0.0
    if lowest < 0:
        raise ValueError(
            f"Expected 'triangle_weight' to be non-negative (got a minimum of {lowest})."
        )
