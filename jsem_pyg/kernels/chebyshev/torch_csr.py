r"""SpMM and SDDMM on torch CSR matrices, in bounded memory.

The adjoint of Y = sum_k c_k T_k(S) X for the gradient G of Y is a recurrence of the same kind:

.. math::
    B_k &= c_k G + 2 S B_{k+1} - B_{k+2}, \qquad k = K, \dots, 1

    \partial X &= c_0 G + S B_1 - B_2

    \partial S_{ij} &= \sum_{k=1}^{K} (2 - [k = 1]) \langle B_k[i], T_{k-1}[j] \rangle

    \partial c_k &= \langle G, T_k \rangle

Nothing is stored on the way: the recurrence of T runs backwards as well as forwards,
T_(k-2) = 2 S T_(k-1) - T_k, from the last two terms (its roots lie on the unit circle, so rounding
does not grow). Extra memory, forward and backward: a few copies of X, whatever K; never [N, N], and
never [nnz, M].
"""

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..csr import CSR
from .recurrence import spread


def chebyshev_series(
    csr: CSR, values: Tensor, x: Tensor, coefficients: Tensor, group: Tensor | None
) -> Tensor:
    """See :mod:`jsem_pyg.kernels.chebyshev`; differentiable once."""
    return _ChebyshevSeries.apply(csr.rowptr, csr.col, values, x, coefficients, group)


class _ChebyshevSeries(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rowptr: Tensor,
        col: Tensor,
        values: Tensor,
        x: Tensor,
        coefficients: Tensor,
        group: Tensor | None,
    ) -> Tensor:
        s = _matrix(rowptr, col, values)
        before, term = x, x
        out = spread(coefficients[0], group) * x
        for k in range(1, coefficients.size(0)):
            if k == 1:
                term = torch.addmm(x, s, x, beta=0, out=torch.empty_like(x))
            else:
                before, term = term, _step(s, term, before, overwrite=k > 2)
            out.addcmul_(spread(coefficients[k], group), term)
        ctx.save_for_backward(rowptr, col, values, before, term, coefficients, group)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rowptr, col, values, before, term, coefficients, group = ctx.saved_tensors
        _, _, needs_values, _, needs_coefficients, _ = ctx.needs_input_grad
        s, grad_s = _matrix(rowptr, col, values), _matrix(rowptr, col, torch.zeros_like(values))
        grad_coefficients = torch.zeros_like(coefficients)
        last = coefficients.size(0) - 1
        b_after = torch.zeros_like(term)
        b = _add_scales(torch.zeros_like(term), coefficients[last], group, grad)
        for k in range(last, 0, -1):
            # b = B_k, b_after = B_(k+1), term = T_k, before = T_(k-1)
            if needs_coefficients:
                grad_coefficients[k] = project(grad, term, coefficients, group)
            if needs_values:
                twice = 1 if k == 1 else 2
                torch.sparse.sampled_addmm(grad_s, b, before.t(), alpha=twice, out=grad_s)
            if k > 1:
                b, b_after = _step(s, b, b_after, overwrite=True), b
                b = _add_scales(b, coefficients[k - 1], group, grad)
                if needs_values or needs_coefficients:
                    # The saved T_K and T_(K-1) must survive for a second backward pass.
                    term, before = before, _step(s, before, term, overwrite=k < last - 1)
        if needs_coefficients:
            grad_coefficients[0] = project(grad, before, coefficients, group)
        if last > 0:
            grad_x = torch.addmm(b_after, s, b, beta=-1, out=b_after)
            b = _add_scales(grad_x, coefficients[0], group, grad)
        return None, None, grad_s.values(), b, grad_coefficients, None


def _matrix(rowptr: Tensor, col: Tensor, values: Tensor) -> Tensor:
    size = rowptr.numel() - 1
    index = torch.int32 if values.numel() < 2**31 else torch.int64  # MKL wants the former
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            rowptr.to(index), col.to(index), values, (size, size), check_invariants=False
        )


def _step(s: Tensor, term: Tensor, before: Tensor, overwrite: bool) -> Tensor:
    """One step of either recurrence, 2 S T - T_before, in the memory of `before` if asked."""
    # With an `out`, autocast leaves the types alone: there are no CSR products in bfloat16.
    out = before if overwrite else torch.empty_like(before)
    return torch.addmm(before, s, term, beta=-1, alpha=2, out=out)


def _add_scales(b: Tensor, coefficient: Tensor, group: Tensor | None, grad: Tensor) -> Tensor:
    """B += c_k G, summed over the scales, in place."""
    for weight, grad_of_scale in zip(spread(coefficient, group), grad, strict=True):
        b.addcmul_(weight, grad_of_scale)
    return b


def project(grad: Tensor, term: Tensor, coefficients: Tensor, group: Tensor | None) -> Tensor:
    """<G, T_k>, summed over the rows of each group and the columns that share a coefficient."""
    _, _, num_groups, num_channels = coefficients.shape
    if num_channels == 1:
        products = torch.linalg.vecdot(grad, term.unsqueeze(0)).unsqueeze(-1)
    else:
        products = grad * term
    if group is None:
        return products.sum(1, keepdim=True)
    zeros = products.new_zeros(products.size(0), num_groups, num_channels)
    return zeros.index_add(1, group, products)
