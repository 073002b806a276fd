"""Columns on demand: a cost matrix known by a function, and a factor made of some columns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..._checks import (
    check_dense,
    check_finite,
    check_float,
    check_instance,
    check_nonnegative_int,
    check_positive_int,
    read_nodes,
)
from ..._random import seeded
from ...kernels.torch_func import compute_dtype, without_autocast
from .cost import Cost, check_matrix, check_symmetry
from .factor import Factor
from .factor_error import check_loss, relative_norm, smallest_rank, warn_if_large
from .roots import signed_root

NUM_PROBES = 32  # columns that only estimate the error


@dataclass(frozen=True, eq=False)
class ColumnCost:
    """Holds a cost matrix [N, N] by a function that computes any of its columns.

    Args:
        function: called with node indices [M] int64, on the CPU; returns their columns [N, M],
            floating-point. Gradients do not flow through it.
        num_points: N.

    Example:
        >>> x = torch.linspace(0, 1, 100)
        >>> cost = ColumnCost(lambda nodes: (x[:, None] - x[nodes]).abs(), num_points=100)
        >>> cost.columns(torch.tensor([0])).shape
        torch.Size([100, 1])
        >>> cost.factor().error < 1e-2
        True
    """

    function: Callable[[Tensor], Tensor]
    num_points: int

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(
                "Expected 'function' to be a function from nodes [M] to columns [N, M] (got "
                f"{type(self.function).__name__}). To fix this, take MatrixCost for a matrix."
            )
        check_positive_int("num_points", self.num_points)

    def columns(self, nodes: Tensor) -> Tensor:
        """Compute the columns [N, M] of M nodes, checked."""
        nodes = read_nodes("nodes", nodes, self.num_points)
        column: Any = self.function(nodes.cpu())
        check_float("function(nodes)", column)
        check_dense("function(nodes)", column)
        if column.shape != (self.num_points, nodes.numel()):
            raise ValueError(
                f"Expected 'function(nodes)' to have shape [{self.num_points}, {nodes.numel()}], "
                f"a column for each node (got {list(column.shape)})."
            )
        check_finite("function(nodes)", column)
        return column.detach().to(compute_dtype(column))

    @without_autocast
    def factor(
        self, rank: int = 64, *, num_columns: int = 256, tol: float = 1e-3, seed: int = 0
    ) -> Factor:
        r"""Compute a factor that approximates the matrix, of kind "kernel" with signs.

        .. math::
            \mathbf{C} \approx \mathbf{Q} \mathbf{M} \mathbf{Q}^T, \qquad
            \mathbf{M} = \mathbf{Q}^T \mathbf{C}_{:, J} (\mathbf{Q}_{J, :}^T)^{+}

        The columns of the nodes J, drawn at random, span a range; Q is its leading part, of fewer
        dimensions than there are nodes, so that M is the well-posed least-squares fit to the
        columns. 32 more columns estimate the error; it is logged if it exceeds 5 %.

        Args:
            rank: the largest number of columns of X.
            num_columns: how many columns are computed, at least `rank`; twice as many is better.
            tol: what fewer columns of X may lose, as a share of the norm; not below rounding.
            seed: of the nodes.

        Raises:
            ValueError: if the matrix is seen not to be symmetric.

        Source: Drineas, Mahoney and Muthukrishnan, "Relative-error CUR matrix decompositions", SIAM
        Journal on Matrix Analysis and Applications 30, 2008; the symmetric form with a fitted core
        is that of Wang and Zhang, "Improving CUR matrix decomposition and the Nyström approximation
        via adaptive sampling", JMLR 14, 2013.
        """
        check_positive_int("rank", rank)
        check_positive_int("num_columns", num_columns)
        if rank > num_columns:
            raise ValueError(
                f"Expected 'rank' to be at most 'num_columns', {num_columns} (got {rank}). To fix "
                "this, pass twice as many columns as the rank."
            )
        check_loss("tol", tol)
        check_nonnegative_int("seed", seed)
        generator = seeded(seed)
        order = torch.randperm(self.num_points, generator=generator)
        drawn, others = order[:num_columns], order[num_columns : num_columns + NUM_PROBES]
        column = self.columns(drawn)
        place = drawn.to(column.device)
        check_symmetry("function(nodes)", column[place])
        share = max(tol, 10 * torch.finfo(column.dtype).eps) / 4
        x, sign = _fit(column.double(), place, rank, share)
        x, sign = x.to(column), sign.to(column)
        if others.numel():
            column, place = self.columns(others), others.to(column.device)
        found = (x * sign) @ x[place].T
        error = relative_norm(found.double() - column.double(), column.double())
        warn_if_large("ColumnCost", error, "take a larger 'rank' and 'num_columns'")
        return Factor(x, "kernel", sign, error)


def read_cost(name: str, source: Any) -> Cost:
    """Read a cost in any view; a tensor is a matrix [N, N], and is checked."""
    if isinstance(source, Cost):
        return source
    check_instance(name, source, Tensor, "a matrix [N, N], or a cost such as ColumnCost")
    check_matrix(name, source)
    return ColumnCost(lambda nodes: source[:, nodes.to(source.device)], source.size(0))


def _fit(column: Tensor, drawn: Tensor, rank: int, share: float) -> tuple[Tensor, Tensor]:
    """Fit X [N, r] and its signs [r] to columns [N, M] of M nodes."""
    left, value, _ = torch.linalg.svd(column, full_matrices=False)
    basis = left[:, : min(rank, smallest_rank(value, share))]
    core = basis.T @ column @ torch.linalg.pinv(basis[drawn].T)
    x, sign = signed_root((core + core.T) / 2, rank, share)
    return basis @ x, sign
