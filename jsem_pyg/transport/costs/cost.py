"""A cost matrix inside one space, and its views: a table, columns on demand, a factor.

All of them have the methods of :class:`Cost`: a :class:`TableCost` stores the whole matrix, a
:class:`.ColumnCost` computes the columns that are needed, a :class:`.Factor` has a short vector for
each point, an :class:`.AdjacencyCost` has the edges of a graph.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from ..._checks import check_dense, check_finite, check_float, check_instance, numbers_of
from ..._precision import compute_dtype

_ASYMMETRY = 1e-4  # of entries, relative to the largest


@runtime_checkable
class Cost(Protocol):
    """A symmetric matrix [N, N] of costs, or of similarities, inside one space."""

    @property
    def num_points(self) -> int:
        """N."""

    def columns(self, nodes: Tensor) -> Tensor:
        """The columns [N, M] of the matrix that belong to M nodes."""

    def dense(self) -> Tensor:
        """The matrix [N, N]."""


class TableCost(NamedTuple):
    """A cost matrix that is stored."""

    matrix: Tensor  # [N, N] symmetric

    @property
    def num_points(self) -> int:
        """N."""
        return self.matrix.size(0)

    def columns(self, nodes: Tensor) -> Tensor:
        """The columns [N, M] of the matrix that belong to M nodes."""
        return self.matrix[:, nodes]

    def dense(self) -> Tensor:
        """The matrix [N, N]."""
        return self.matrix


def read_cost(name: str, source: Any) -> Cost:
    """A cost in any view; a tensor is a matrix [N, N], which is checked."""
    if isinstance(source, Cost):
        return source
    check_instance(name, source, Tensor, "a matrix [N, N], or a cost such as ColumnCost")
    check_matrix(name, source)
    return TableCost(source.detach().to(compute_dtype(source)))


def check_matrix(name: str, matrix: Any) -> None:
    """Raise unless `matrix` is a dense, finite, symmetric floating-point tensor [N, N]."""
    check_float(name, matrix)
    check_dense(name, matrix)
    if matrix.dim() != 2 or matrix.size(0) != matrix.size(1) or matrix.numel() == 0:
        raise ValueError(
            f"Expected '{name}' to be a matrix [N, N], not empty (got shape {list(matrix.shape)})."
        )
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


def check_squares(what: str, largest: Tensor, terms: int = 1) -> None:
    """Raise a ValueError unless sums of `terms` squares are in the range of their type.

    `largest` [...] has the sizes of the largest numbers; zeros are fine.
    """
    limits, some = torch.finfo(largest.dtype), largest[largest != 0]
    outside = some[(some < limits.tiny**0.5) | (some > (limits.max / terms) ** 0.5)]
    if outside.numel():
        raise ValueError(
            f"Expected {what} of a size whose squares {largest.dtype} can hold (got a largest of "
            f"{float(outside[0]):.3g}). To fix this, divide or multiply all costs by one number, "
            "or compute them in float64."
        )
