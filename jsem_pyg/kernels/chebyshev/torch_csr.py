"""SpMM and SDDMM on torch CSR matrices, in bounded memory; the mathematics is in :mod:`.adjoint`.

Extra memory, forward and backward: a few copies of X, whatever K; never [N, N], and never [nnz, M].
"""

import warnings
from typing import Any

import torch
from torch import Tensor

from ..csr import CSR
from .adjoint import Gradients, Halves
from .recurrence import spread


def evaluate(
    csr: CSR, values: Tensor, x: Tensor, coefficients: Tensor, group: Tensor | None, keep: bool
) -> tuple[Tensor, Tensor]:
    """Forward; see :class:`.adjoint.Halves`. T_k is kept in the place (k - 1) % 2."""
    s = _matrix(csr, values)
    terms = x.new_empty(2, *x.shape)
    before, term = x, x
    out = spread(coefficients[0], group) * x
    for k in range(1, coefficients.size(0)):
        target = terms[(k - 1) % 2]
        if k == 1:
            torch.addmm(x, s, x, beta=0, out=target)
        else:
            _step(s, term, before, target)
        before, term = term, target
        out.addcmul_(spread(coefficients[k], group), term)
    if coefficients.size(0) <= 2:
        terms[1] = x  # T_0
    return out, terms if keep else terms.new_empty(0)


def differentiate(
    csr: CSR,
    values: Tensor,
    kept: Tensor,
    coefficients: Tensor,
    group: Tensor | None,
    grad: Tensor,
    needs_values: bool,
    needs_coefficients: bool,
) -> Gradients:
    """Backward; see :class:`.adjoint.Halves`."""
    s, grad_s = _matrix(csr, values), _matrix(csr, torch.zeros_like(values))
    grad_coefficients = torch.zeros_like(coefficients)
    last = coefficients.size(0) - 1
    needs_terms = needs_values or needs_coefficients
    term, before = (kept[(last - 1) % 2], kept[last % 2]) if needs_terms else (grad, grad)
    b, b_after = grad.new_zeros(2, *grad.shape[1:])
    b = _add_scales(b, coefficients[last], group, grad)
    for k in range(last, 0, -1):
        # b = B_k, b_after = B_(k+1), term = T_k, before = T_(k-1)
        if needs_coefficients:
            grad_coefficients[k] = project(grad, term, coefficients, group)
        if needs_values:
            twice = 1 if k == 1 else 2
            torch.sparse.sampled_addmm(grad_s, b, before.t(), alpha=twice, out=grad_s)
        if k > 1:
            b, b_after = _step(s, b, b_after, b_after), b
            b = _add_scales(b, coefficients[k - 1], group, grad)
            if needs_terms:
                # What is kept must survive for a second backward pass.
                target = term if k < last - 1 else torch.empty_like(term)
                term, before = before, _step(s, before, term, target)
    if needs_coefficients:
        grad_coefficients[0] = project(grad, before if last else term, coefficients, group)
    if last > 0:
        grad_x = torch.addmm(b_after, s, b, beta=-1, out=b_after)
        b = _add_scales(grad_x, coefficients[0], group, grad)
    return b, grad_s.values(), grad_coefficients


def kept_shape(num_nodes: Any, num_columns: Any, dtype: torch.dtype) -> tuple[Any, ...]:
    """Two terms."""
    return 2, num_nodes, num_columns


HALVES = Halves(evaluate, differentiate, kept_shape)
chebyshev_series = HALVES.series


def _matrix(csr: CSR, values: Tensor) -> Tensor:
    size = csr.num_nodes
    index = torch.int32 if values.numel() < 2**31 else torch.int64  # MKL wants the former
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            csr.rowptr.to(index), csr.col.to(index), values, (size, size), check_invariants=False
        )


def _step(s: Tensor, term: Tensor, before: Tensor, target: Tensor) -> Tensor:
    """One step of either recurrence, target = 2 S T - T_before; `target` may be the latter."""
    # With an `out`, autocast leaves the types alone: there are no CSR products in bfloat16.
    return torch.addmm(before, s, term, beta=-1, alpha=2, out=target)


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
