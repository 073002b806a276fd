r"""Roots and leading subspaces of symmetric matrices, with derivatives that are never 0/0.

The derivative of an eigenvector has the differences of eigenvalues in the denominator; these are
zero wherever a graph has a symmetry. But a cost depends on its factor X only by X X^T, which does
not change when eigenvectors are rotated among themselves; the terms of these rotations are left
out here. So derivatives are exact for everything that depends on the cost matrix, as long as the
cut separates different eigenvalues:

- an inverse root changes by its divided differences, always finite (Daleckii and Krein 1965;
  Higham, "Functions of matrices", 2008, theorem 3.11);
- a basis of the leading eigenvectors needs only the differences between those that are kept and
  those that are not;
- a root X diag(sign) X^T needs these times the root of the kept eigenvalue, the same for
  eigenvalues of unlike signs, and sums of roots for two of one sign.

All are computed in float64, whatever the type of the matrix.
"""

from typing import Any

import torch
from torch import Tensor

from .factor_error import smallest_rank
from .first_order import refuse_second_derivative

_WHAT = "the eigenvectors of a cost"


def signed_root(matrix: Tensor, rank: int, tol: float) -> tuple[Tensor, Tensor]:
    """Factor a symmetric matrix, X diag(sign) X^T: X [N, r] and the signs [r]; differentiable.

    The rank r is smaller if that loses at most `tol` of the Frobenius norm.
    """
    x, sign = _SignedRoot.apply(matrix, rank, tol)
    return x, sign


def inverse_root(matrix: Tensor, shift: float) -> Tensor:
    """Compute (A + shift I)^(-1/2) of a positive semidefinite matrix A; differentiable."""
    return _InverseRoot.apply(matrix, shift)


def leading_basis(matrix: Tensor, rank: int) -> Tensor:
    """Find the eigenvectors [M, rank] of the largest eigenvalues of a symmetric matrix [M, M]."""
    return _LeadingBasis.apply(matrix, rank)


def _eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Compute eigenvalues, ascending, and eigenvectors in float64."""
    value, vector = torch.linalg.eigh(_symmetric(matrix.double()))
    return value, vector


def _symmetric(matrix: Tensor) -> Tensor:
    return 0.5 * (matrix + matrix.T)


def _quotient(above: Tensor, below: Tensor) -> Tensor:
    """Divide, with zero in place of x / 0: two null eigenvalues, or a tie at the cut."""
    return torch.where(below == 0, 0, above / torch.where(below == 0, 1, below))


class _SignedRoot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, rank: int, tol: float) -> tuple[Tensor, Tensor]:
        value, vector = _eigen(matrix)
        order = value.abs().argsort(descending=True, stable=True)
        value, vector = value[order], vector[:, order]
        kept = min(rank, smallest_rank(value, tol))
        ctx.save_for_backward(value, vector)
        sign = torch.where(value[:kept] < 0, -1.0, 1.0).to(matrix.dtype)
        ctx.mark_non_differentiable(sign)
        return (vector[:, :kept] * value[:kept].abs().sqrt()).to(matrix.dtype), sign

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor, None, None]:
        refuse_second_derivative(_WHAT)
        value, vector = ctx.saved_tensors
        kept = grad.size(1)
        root, column = value.abs().sqrt(), value[:kept]
        alike = (value[:, None] < 0) == (column < 0)
        alike[kept:] = False
        together = torch.where(column < 0, -1.0, 1.0) * (root[:, None] + root[:kept])
        below = torch.where(alike, together, column - value[:, None])
        above = torch.where(alike, torch.ones_like(below), root[:kept].expand_as(below))
        inner = vector.T @ grad.double() * _quotient(above, below)
        return _symmetric(vector @ inner @ vector[:, :kept].T).to(grad.dtype), None, None


class _InverseRoot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, shift: float) -> Tensor:
        value, vector = _eigen(matrix)
        root = (value.clamp(min=0) + shift).sqrt()
        ctx.save_for_backward(root, vector)
        return ((vector / root) @ vector.T).to(matrix.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        refuse_second_derivative(_WHAT)
        root, vector = ctx.saved_tensors
        difference = -1 / (root[:, None] * root * (root[:, None] + root))
        inner = vector.T @ _symmetric(grad.double()) @ vector * difference
        return (vector @ inner @ vector.T).to(grad.dtype), None


class _LeadingBasis(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, rank: int) -> Tensor:
        value, vector = _eigen(matrix)
        ctx.save_for_backward(value, vector)
        return vector[:, -rank:].flip(1).to(matrix.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        refuse_second_derivative(_WHAT)
        value, vector = ctx.saved_tensors
        cut = value.numel() - grad.size(1)
        out, kept = vector[:, :cut], vector[:, cut:]
        gap = value[cut:] - value[:cut, None]
        inner = out.T @ grad.double().flip(1) * _quotient(torch.ones_like(gap), gap)
        return _symmetric(out @ inner @ kept.T).to(grad.dtype), None
