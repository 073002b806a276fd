"""The cost that a user can compute a few columns of: a factor from these."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..._checks import (
    check_between,
    check_dense,
    check_finite,
    check_float,
    check_nonnegative_int,
    check_positive_int,
)
from ..._precision import compute_dtype
from .factor import Factor
from .factor_error import relative_norm, say_if_large, smallest_rank
from .signed_root import signed_root

NUM_PROBES = 32  # columns that the error is estimated from, and nothing else

Oracle = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class OracleCost:
    r"""A symmetric matrix that is known by a function from nodes to columns.

    .. math::
        \mathbf{C} \approx \mathbf{Q} \mathbf{M} \mathbf{Q}^T, \qquad
        \mathbf{M} = \mathbf{Q}^T \mathbf{C}_{:, J} (\mathbf{Q}_{J, :}^T)^{+}

    The columns of the nodes J, drawn at random, span a range; Q is its leading part, of fewer
    dimensions than there are nodes, so that M is the well-posed least-squares fit to the columns.
    32 more columns, held out, tell the error, which is logged if it exceeds 5 %. Not
    differentiable: columns that ask for a gradient are taken without it.

    Args:
        rank: the largest number of columns of X.
        num_columns: how many columns are asked for, at least `rank`; twice as many is better.
        tol: what fewer columns of X may lose, as a share of the norm; not below rounding.
        seed: of the nodes.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if one is out of range.

    Source: Drineas, Mahoney and Muthukrishnan, "Relative-error CUR matrix decompositions", SIAM
    Journal on Matrix Analysis and Applications 30, 2008; the symmetric form with a fitted core is
    that of Wang and Zhang, "Improving CUR matrix decomposition and the Nyström approximation via
    adaptive sampling", JMLR 14, 2013.

    Example:
        >>> x = torch.linspace(0, 1, 100)
        >>> factor = OracleCost()(lambda nodes: (x[:, None] - x[nodes]).abs(), num_points=100)
        >>> factor.error < 1e-2
        True
    """

    rank: int = 64
    num_columns: int = 256
    tol: float = 1e-3
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive_int("rank", self.rank)
        check_positive_int("num_columns", self.num_columns)
        if self.rank > self.num_columns:
            raise ValueError(
                f"Expected 'rank' to be at most 'num_columns', {self.num_columns} (got "
                f"{self.rank}). To fix this, ask for twice as many columns as the rank."
            )
        check_between("tol", self.tol, -1e-300, 1)
        check_nonnegative_int("seed", self.seed)

    def __call__(self, oracle: Oracle, num_points: int) -> Factor:
        """Make the factor, of kind "kernel" with signs.

        Args:
            oracle: takes nodes [M] (int64, on the CPU), returns their columns [N, M].
            num_points: N.

        Raises:
            TypeError: if `oracle` is not callable, or returns something else than floats.
            ValueError: if the columns are of another shape, or not finite, or the matrix is not
                symmetric where that can be seen.
        """
        if not callable(oracle):
            raise TypeError(
                "Expected 'oracle' to be a function from nodes [M] to columns [N, M] (got "
                f"{type(oracle).__name__}). To fix this, take MatrixCost for a matrix."
            )
        check_positive_int("num_points", num_points)
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(num_points, generator=generator)
        drawn, held_out = order.split([min(self.num_columns, num_points), _rest(self, num_points)])
        column = _ask(oracle, drawn, num_points)
        share = max(self.tol, 10 * torch.finfo(column.dtype).eps)
        _check_block(column[drawn.to(column.device)])
        x, sign = self._fit(column.double(), drawn.to(column.device), share)
        x, sign = x.to(column.dtype), sign.to(column.dtype)
        if held_out.numel():
            drawn = held_out[:NUM_PROBES]
            column = _ask(oracle, drawn, num_points)
        found = (x * sign) @ x[drawn.to(x.device)].T
        error = relative_norm(found.double() - column.double(), column.double())
        say_if_large("OracleCost", error, "take a larger 'rank' and 'num_columns'")
        return Factor(x, "kernel", sign, error)

    def _fit(self, column: Tensor, drawn: Tensor, share: float) -> tuple[Tensor, Tensor]:
        left, value, _ = torch.linalg.svd(column, full_matrices=False)
        size = min(self.rank, smallest_rank(value, share / 4))
        basis = left[:, :size]
        core = basis.T @ column @ torch.linalg.pinv(basis[drawn].T)
        x, sign = signed_root((core + core.T) / 2, self.rank, share / 4)
        return basis @ x, sign


def _rest(cost: OracleCost, num_points: int) -> int:
    return max(0, num_points - cost.num_columns)


def _ask(oracle: Oracle, nodes: Tensor, num_points: int) -> Tensor:
    column: Any = oracle(nodes)
    check_float("oracle(nodes)", column)
    check_dense("oracle(nodes)", column)
    if column.shape != (num_points, nodes.numel()):
        raise ValueError(
            f"Expected 'oracle(nodes)' to have shape [{num_points}, {nodes.numel()}], a column for "
            f"each node (got {list(column.shape)})."
        )
    check_finite("oracle(nodes)", column)
    return column.detach().to(compute_dtype(column))


def _check_block(block: Tensor) -> None:
    difference, largest = float((block - block.T).abs().max()), float(block.abs().max())
    if difference > 1e-3 * largest:
        raise ValueError(
            "Expected 'oracle' to know a symmetric matrix (got entries that differ from their "
            f"mirror image by up to {difference:.3g}, of a largest {largest:.3g})."
        )
