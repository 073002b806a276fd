"""A cost matrix inside one space, and its views: columns on demand, a factor.

All of them have the methods of :class:`Cost`: a :class:`.ColumnCost` computes the columns that are
needed, a :class:`.Factor` has a short vector for each point, an :class:`.AdjacencyCost` has the
edges of a graph.
"""

from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from ..._checks import check_dense, check_finite, check_float, numbers_of

_ASYMMETRY = 1e-4  # of entries, relative to the largest
_SMALLEST, _LARGEST = 1e-12, 1e12  # costs: solvers compute with their fourth powers


@runtime_checkable
class Cost(Protocol):
    """A symmetric matrix [N, N] of costs, or of similarities, inside one space."""

    @property
    def num_points(self) -> int:
        """N."""

    def columns(self, nodes: Tensor) -> Tensor:
        """Compute the columns [N, M] of M nodes."""


def check_matrix(name: str, matrix: Any) -> None:
    """Raise unless `matrix` is a dense, finite, symmetric floating-point tensor [N, N]."""
    check_float(name, matrix)
    check_dense(name, matrix)
    if matrix.dim() != 2 or matrix.size(0) != matrix.size(1) or matrix.numel() == 0:
        raise ValueError(f"Expected '{name}' to be [N, N], not empty (got {list(matrix.shape)}).")
    check_finite(name, matrix)
    check_symmetry(name, matrix)


def check_symmetry(name: str, matrix: Tensor) -> None:
    """Raise a ValueError unless a matrix [N, N] equals its transpose, to rounding."""
    values = numbers_of(matrix)
    largest = float(values.abs().max())
    difference = float((values - values.T).abs().max())
    if difference > _ASYMMETRY * largest:
        raise ValueError(
            f"Expected '{name}' to be symmetric (got entries that differ from their mirror image "
            f"by up to {difference:.3g}, of a largest {largest:.3g}). To fix this, pass "
            "(matrix + matrix.T) / 2."
        )


def check_cost_range(name: str, largest: float) -> None:
    """Raise a ValueError unless the largest cost of a side is zero or in the supported range."""
    if largest and not _SMALLEST <= largest <= _LARGEST:
        raise ValueError(
            f"Expected '{name}' to have a largest cost from {_SMALLEST:g} to {_LARGEST:g} (got "
            f"{largest:.3g}). To fix this, multiply the costs of both sides by one number."
        )
