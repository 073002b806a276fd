r"""Roots and leading subspaces of small symmetric matrices, with derivatives that are never 0/0.

The derivative of an eigenvector has the differences of eigenvalues below the line, which are zero
wherever a graph has a symmetry. A cost depends on its factor X only by X X^T, though, which turns
of the eigenvectors among themselves leave alone; and these terms are what is left out here:

- a function f of the eigenvalues, :math:`\mathbf{U} f(\mathbf{\Lambda}) \mathbf{U}^T`, changes by
  its divided differences, which are finite (Daleckii and Krein 1965; Higham, "Functions of
  matrices", 2008, theorem 3.11);
- a basis of the leading eigenvectors needs only the differences between those that are kept and
  those that are not (the gauge in which the basis does not turn in itself).

All are computed in float64, whatever the type of the matrix.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def psd_root(matrix: Tensor) -> Tensor:
    """The root [M, M] of a symmetric positive semidefinite matrix [M, M]; differentiable.

    Eigenvalues below zero are taken for rounding, and for zero.

    Example:
        >>> psd_root(torch.tensor([[4.0, 0.0], [0.0, 9.0]]))
        tensor([[2., 0.],
                [0., 3.]])
    """
    return _Root.apply(matrix)


def inverse_root(matrix: Tensor, shift: float) -> Tensor:
    """(A + shift I)^(-1/2) of a symmetric positive semidefinite matrix A; differentiable."""
    return _InverseRoot.apply(matrix, shift)


def leading_basis(matrix: Tensor, rank: int) -> Tensor:
    """The eigenvectors [M, rank] of the largest eigenvalues of a symmetric matrix [M, M].

    The derivative is exact for whatever depends on the space that they span alone, as long as the
    last eigenvalue within differs from the first one without.
    """
    return _LeadingBasis.apply(matrix, rank)


def _symmetric(matrix: Tensor) -> Tensor:
    return 0.5 * (matrix + matrix.T)


def _finite_inverse(value: Tensor) -> Tensor:
    """1 / value, zero for zero: where two eigenvalues are null, nothing depends on them."""
    return torch.where(value == 0, 0, 1 / torch.where(value == 0, 1, value))


class _Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        value, vector = torch.linalg.eigh(_symmetric(matrix.double()))
        root = value.clamp(min=0).sqrt()
        ctx.save_for_backward(root, vector)
        return ((vector * root) @ vector.T).to(matrix.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        root, vector = ctx.saved_tensors
        difference = _finite_inverse(root[:, None] + root)
        return _conjugate(vector, _symmetric(grad.double()), difference).to(grad.dtype)


class _InverseRoot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, shift: float) -> Tensor:
        value, vector = torch.linalg.eigh(_symmetric(matrix.double()))
        root = (value.clamp(min=0) + shift).sqrt()
        ctx.save_for_backward(root, vector)
        return ((vector / root) @ vector.T).to(matrix.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        root, vector = ctx.saved_tensors
        difference = -1 / (root[:, None] * root * (root[:, None] + root))
        return _conjugate(vector, _symmetric(grad.double()), difference).to(grad.dtype), None


class _LeadingBasis(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, rank: int) -> Tensor:
        value, vector = torch.linalg.eigh(_symmetric(matrix.double()))
        ctx.save_for_backward(value, vector)
        ctx.rank = rank
        return vector[:, -rank:].flip(1).to(matrix.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        value, vector = ctx.saved_tensors
        cut = value.numel() - ctx.rank
        out, kept = vector[:, :cut], vector[:, cut:]
        gap = _finite_inverse(value[cut:] - value[:cut, None])
        inner = out.T @ grad.double().flip(1) * gap
        return _symmetric(out @ inner @ kept.T).to(grad.dtype), None


def _conjugate(vector: Tensor, grad: Tensor, difference: Tensor) -> Tensor:
    return vector @ (vector.T @ grad @ vector * difference) @ vector.T
