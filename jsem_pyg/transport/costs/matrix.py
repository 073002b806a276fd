"""A factor of a symmetric matrix, given by the user."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..._checks import check_nonnegative_int, check_positive_int
from ..._random import seeded
from ...kernels.torch_func import compute_dtype, without_autocast
from .cost import check_matrix
from .factor import Factor
from .factor_error import check_loss, relative_norm, warn_if_large
from .roots import signed_root

DENSE_LIMIT = 512  # points of a matrix whose eigenvalues are all computed
SPARE = 16  # more random vectors than columns
POWERS = 2  # power iterations


@dataclass(frozen=True)
class MatrixCost:
    r"""Factors a symmetric matrix of costs or similarities, such as distances.

    .. math::
        \mathbf{C} \approx \mathbf{X} \, \mathrm{diag}(\mathbf{\sigma}) \, \mathbf{X}^T

    by its eigenvalues of largest size, of either sign. Up to 512 points all eigenvalues are
    computed; beyond, those in the range of the matrix times random vectors, with two power
    iterations. The error of the whole matrix is logged if it exceeds 5 %.

    Differentiable up to 512 points, exactly so for what depends on the cost matrix, where the cut
    separates different eigenvalues; refused beyond.

    Args:
        rank: the largest number of columns; fewer if they hold all but `tol` of the norm.
        tol: what fewer columns may lose, as a share of the norm; not below rounding.
        seed: of the random vectors.

    Source: Halko, Martinsson and Tropp, "Finding structure with randomness", SIAM Review 53, 2011,
    algorithms 4.4 and 5.3.

    Example:
        >>> MatrixCost()(torch.tensor([[0.0, 4.0], [4.0, 0.0]]))
        Factor(indefinite kernel, num_points=2, rank=2)
    """

    rank: int = 128
    tol: float = 1e-3
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive_int("rank", self.rank)
        check_loss("tol", self.tol)
        check_nonnegative_int("seed", self.seed)

    @without_autocast
    def __call__(self, matrix: Any) -> Factor:
        """Make the factor, of kind "kernel" with signs, of a symmetric matrix [N, N]."""
        check_matrix("matrix", matrix)
        matrix = matrix.to(compute_dtype(matrix))
        share = max(self.tol, 10 * torch.finfo(matrix.dtype).eps)
        if matrix.size(0) <= max(DENSE_LIMIT, self.rank + SPARE):
            x, sign = signed_root(matrix, self.rank, share)
        else:
            x, sign = self._from_range(matrix, share)
        rest = (x.detach() * sign) @ x.detach().T
        rest -= matrix.detach()
        error = relative_norm(rest, matrix.detach())
        warn_if_large("MatrixCost", error, "take a larger 'rank'")
        return Factor(x, "kernel", sign, error)

    def _from_range(self, matrix: Tensor, share: float) -> tuple[Tensor, Tensor]:
        if matrix.requires_grad:
            raise ValueError(
                f"Expected 'matrix' without a gradient for more than {DENSE_LIMIT} points (got "
                f"requires_grad=True for {matrix.size(0)}). To fix this, pass matrix.detach(), or "
                "take a FeatureCost or HeatCost, which are differentiable."
            )
        generator = seeded(self.seed)
        shape = (matrix.size(0), self.rank + SPARE)
        start = torch.randn(shape, generator=generator, dtype=matrix.dtype)
        basis = start.to(matrix.device)
        for _ in range(1 + POWERS):
            basis = torch.linalg.qr(matrix @ basis)[0]
        core = basis.double().T @ (matrix @ basis).double()
        x, sign = signed_root(core, self.rank, share)
        return basis @ x.to(basis.dtype), sign.to(basis.dtype)
