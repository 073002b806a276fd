r"""Any symmetric matrix as X diag(sign) X^T, with a derivative that is never 0/0.

X is not unique: columns of one sign may be turned among themselves. In the gauge in which they do
not turn, an entry of dX in the basis of eigenvectors is that of dC divided by

- the sum of the roots of two eigenvalues of one sign, as in the root of a definite matrix;
- the difference of two eigenvalues of which one is kept and one is not, or of unlike signs, times
  the root of the one that is kept.

So it is exact for whatever depends on the matrix X diag(sign) X^T, as long as the cut parts
different eigenvalues.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .factor_error import smallest_rank


def signed_root(matrix: Tensor, rank: int, tol: float) -> tuple[Tensor, Tensor]:
    """Factor a symmetric matrix [N, N]: X [N, r] and the signs [r]; differentiable.

    Args:
        matrix: the matrix.
        rank: the largest r.
        tol: what a smaller r may lose, as a share of the norm of Frobenius.

    Example:
        >>> x, sign = signed_root(torch.tensor([[0.0, 4.0], [4.0, 0.0]]), rank=2, tol=1e-6)
        >>> ((x * sign) @ x.T).round()
        tensor([[0., 4.],
                [4., 0.]])
    """
    x, sign = _SignedRoot.apply(matrix, rank, tol)
    return x, sign


class _SignedRoot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, rank: int, tol: float) -> tuple[Tensor, Tensor]:
        value, vector = torch.linalg.eigh((matrix + matrix.T).double() / 2)
        order = value.abs().argsort(descending=True, stable=True)
        value, vector = value[order], vector[:, order]
        kept = min(rank, smallest_rank(value, tol))
        ctx.save_for_backward(value, vector)
        sign = torch.where(value[:kept] < 0, -1.0, 1.0).to(matrix.dtype)
        ctx.mark_non_differentiable(sign)
        return (vector[:, :kept] * value[:kept].abs().sqrt()).to(matrix.dtype), sign

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor, None, None]:
        value, vector = ctx.saved_tensors
        kept = grad.size(1)
        inner = vector.T @ grad.double() * _divisors(value, kept)
        full = vector @ inner @ vector[:, :kept].T
        return ((full + full.T) / 2).to(grad.dtype), None, None


def _divisors(value: Tensor, kept: int) -> Tensor:
    """What an entry of dC is multiplied by, to be one of dX: [N, r]."""
    root, column = value.abs().sqrt(), value[:kept]
    alike = (value[:, None] < 0) == (column < 0)
    alike[kept:] = False
    together = torch.where(column < 0, -1.0, 1.0) * (root[:, None] + root[:kept])
    apart = column - value[:, None]
    below = torch.where(alike, together, apart)
    above = torch.where(alike, torch.ones_like(below), root[:kept].expand_as(below))
    # Zero for two that are both null, on which nothing depends, or tied at the cut.
    return torch.where(below == 0, 0, above / torch.where(below == 0, 1, below))
