r"""The derivative of a series, for backends that bring its two halves.

The adjoint of Y = sum_k c_k T_k(S) X for the gradient G of Y is a recurrence of the same kind:

.. math::
    B_k &= c_k G + 2 S B_{k+1} - B_{k+2}, \qquad k = K, \dots, 1

    \partial X &= c_0 G + S B_1 - B_2

    \partial S_{ij} &= \sum_{k=1}^{K} (2 - [k = 1]) \langle B_k[i], T_{k-1}[j] \rangle

    \partial c_k &= \langle G, T_k \rangle

The recurrence of T runs backwards as well as forwards, T_(k-2) = 2 S T_(k-1) - T_k, from the last
two terms (its roots lie on the unit circle, so rounding does not grow). These two are all that is
kept between the halves, whatever the degree.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..csr import CSR
from . import reference

Gradients = tuple[Tensor, Tensor | None, Tensor | None]


class Halves(NamedTuple):
    """What a backend does forward and backward.

    Attributes:
        evaluate: ``(csr, values, x, coefficients, group, keep) -> (y [S, N, M], kept)``; `kept` is
            what the backend needs of the last two terms, or has no entries unless `keep`.
        differentiate: ``(csr, values, kept, coefficients, group, grad [S, N, M], needs_values,
            needs_coefficients) -> (gradient of x, of the values, of the coefficients)``; it leaves
            `kept` as it is. The latter two may be None where they are not needed.
        kept_shape: ``(N, M, dtype) ->`` the shape of `kept`.
    """

    evaluate: Callable[..., tuple[Tensor, Tensor]]
    differentiate: Callable[..., Gradients]
    kept_shape: Callable[[Any, Any, torch.dtype], tuple[Any, ...]]

    def series(
        self, csr: CSR, values: Tensor, x: Tensor, coefficients: Tensor, group: Tensor | None
    ) -> Tensor:
        """See :mod:`jsem_pyg.kernels.chebyshev`; differentiable once."""
        if x.numel() == 0:
            return reference.chebyshev_series(csr, values, x, coefficients, group)
        return _Series.apply(self, csr, None, values, x, coefficients, group)

    def resumed_series(
        self,
        kept: Tensor,
        csr: CSR,
        values: Tensor,
        x: Tensor,
        coefficients: Tensor,
        group: Tensor | None,
    ) -> Tensor:
        """The same, evaluated before: zeros in place of the values, but the right derivative."""
        return _Series.apply(self, csr, kept, values, x, coefficients, group)


class _Series(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        halves: Halves,
        csr: CSR,
        kept: Tensor | None,
        values: Tensor,
        x: Tensor,
        coefficients: Tensor,
        group: Tensor | None,
    ) -> Tensor:
        if kept is None:
            needs_terms = ctx.needs_input_grad[3] or ctx.needs_input_grad[5]
            out, kept = halves.evaluate(csr, values, x, coefficients, group, needs_terms)
        else:
            out = x.new_zeros(()).expand(coefficients.size(1), *x.shape)
        ctx.halves, ctx.csr = halves, csr
        ctx.save_for_backward(values, kept, coefficients, group)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        values, kept, coefficients, group = ctx.saved_tensors
        needs_values, needs_coefficients = ctx.needs_input_grad[3], ctx.needs_input_grad[5]
        grad_x, grad_values, grad_coefficients = ctx.halves.differentiate(
            ctx.csr, values, kept, coefficients, group, grad, needs_values, needs_coefficients
        )
        return (
            None,
            None,
            None,
            grad_values if needs_values else None,
            grad_x,
            grad_coefficients if needs_coefficients else None,
            None,
        )
