r"""The Chebyshev series of a hypergraph's operator through its incidence matrix, in two products.

:math:`\mathbf{S}^{\prime} \mathbf{Z} = 2 \mathbf{D} \mathbf{H} \mathbf{B} \mathbf{H}^{\top}
\mathbf{D} \mathbf{Z} - \mathbf{Z}` with the diagonal matrices D (`inverse_root`) and B (`share`),
from right to left. H holds constants, so weights need no sparse gradient: with
:math:`\mathbf{U}(\mathbf{Z}) = \mathbf{H}^{\top} \mathbf{D} \mathbf{Z}` and
:math:`\mathbf{V}(\mathbf{Z}) = \mathbf{H} \mathbf{B} \mathbf{U}(\mathbf{Z})`, and B_k, T_k as in
:mod:`jsem_pyg.kernels.chebyshev.torch_csr`,

.. math::
    \partial b_e &= 2 \sum_k (2 - [k = 1]) \langle U(B_k)_e, U(T_{k-1})_e \rangle

    \partial d_i &= 2 \sum_k (2 - [k = 1]) ( \langle B_k[i], V(T_{k-1})_i \rangle
    + \langle V(B_k)_i, T_{k-1}[i] \rangle )

which are row-wise products of what the two recurrences compute anyway. T runs backwards, so that
memory holds a few [N, M] and [E, M] tensors, whatever the degree, and never a message for each
membership.
"""

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..kernels.chebyshev.recurrence import chebyshev_recurrence, spread
from ..kernels.chebyshev.torch_csr import project
from ..kernels.csr import CSR
from ..kernels.dispatch import ChebyshevSeries
from ..operators.hypergraph import HypergraphOperator
from ..operators.hypergraph_structure import HypergraphStructure


def reference_incidence_series(operator: HypergraphOperator) -> ChebyshevSeries:
    """Gather, multiply, scatter-add, and plain autograd: on any device, as often as one likes."""
    root = operator.inverse_root.unsqueeze(-1)

    def apply_s(term: Tensor) -> Tensor:
        return 2 * root * operator.two_steps(root * term) - term

    def series(
        csr: CSR, values: Tensor, x: Tensor, coefficients: Tensor, group: Tensor | None
    ) -> Tensor:
        return chebyshev_recurrence(apply_s, x, coefficients, group)

    return series


def incidence_series(operator: HypergraphOperator) -> ChebyshevSeries:
    """Two CSR products for each term, in bounded memory; differentiable once."""
    h, h_t = _matrices(operator.structure, operator.share.dtype)
    root, share = operator.inverse_root, operator.share

    def series(
        csr: CSR, values: Tensor, x: Tensor, coefficients: Tensor, group: Tensor | None
    ) -> Tensor:
        out: Tensor = _IncidenceSeries.apply(h, h_t, root, share, x, coefficients, group)
        return out

    return series


def _matrices(structure: HypergraphStructure, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """H [N, E] and H^T [E, N] as CSR."""
    pattern, order = structure.transpose
    size = (structure.num_nodes, structure.num_hyperedges)
    count = structure.multiplicity.to(dtype)
    return _matrix(structure.incidence, count, size), _matrix(pattern, count[order], size[::-1])


def _matrix(pattern: CSR, values: Tensor, size: tuple[int, ...]) -> Tensor:
    index = torch.int32 if values.numel() < 2**31 else torch.int64  # MKL wants the former
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            pattern.rowptr.to(index), pattern.col.to(index), values, size, check_invariants=False
        )


class _Factors:
    """S' as its factors."""

    def __init__(self, h: Tensor, h_t: Tensor, inverse_root: Tensor, share: Tensor) -> None:
        self.h, self.h_t = h, h_t
        self.root, self.share = inverse_root.unsqueeze(-1), share.unsqueeze(-1)

    def __call__(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """S' Z, U(Z) and V(Z)."""
        u = self.h_t @ (self.root * z)
        v = self.h @ (self.share * u)
        return torch.addcmul(-z, self.root, v, value=2), u, v


class _IncidenceSeries(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        h_t: Tensor,
        inverse_root: Tensor,
        share: Tensor,
        x: Tensor,
        coefficients: Tensor,
        group: Tensor | None,
    ) -> Tensor:
        apply_s = _Factors(h, h_t, inverse_root, share)
        before, term = x, x
        out = spread(coefficients[0], group) * x
        for k in range(1, coefficients.size(0)):
            applied = apply_s(term)[0]
            before, term = term, applied if k == 1 else 2 * applied - before
            out.addcmul_(spread(coefficients[k], group), term)
        ctx.save_for_backward(h, h_t, inverse_root, share, before, term, coefficients, group)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, h_t, inverse_root, share, before, term, coefficients, group = ctx.saved_tensors
        apply_s = _Factors(h, h_t, inverse_root, share)
        grad_root, grad_share = torch.zeros_like(inverse_root), torch.zeros_like(share)
        grad_coefficients = torch.zeros_like(coefficients)
        last = coefficients.size(0) - 1
        b, b_after = _add_scales(coefficients[last], group, grad), torch.zeros_like(term)
        for k in range(last, 0, -1):
            # b = B_k, b_after = B_(k+1), term = T_k, before = T_(k-1)
            grad_coefficients[k] = project(grad, term, coefficients, group)
            s_b, u_b, v_b = apply_s(b)
            s_t, u_t, v_t = apply_s(before)
            factor = 2 if k == 1 else 4
            grad_share += factor * torch.linalg.vecdot(u_b, u_t)
            grad_root += factor * (torch.linalg.vecdot(b, v_t) + torch.linalg.vecdot(v_b, before))
            b, b_after = (1 if k == 1 else 2) * s_b - b_after, b
            b += _add_scales(coefficients[k - 1], group, grad)
            term, before = before, before if k == 1 else 2 * s_t - term
        grad_coefficients[0] = project(grad, before, coefficients, group)
        return None, None, grad_root, grad_share, b, grad_coefficients, None


def _add_scales(coefficient: Tensor, group: Tensor | None, grad: Tensor) -> Tensor:
    """c_k G, summed over the scales."""
    return (spread(coefficient, group) * grad).sum(0)
