r"""The derivative of a series, for operators that compute the gradient of their own values.

The adjoint of Y = sum_k c_k T_k(S) X for the gradient G of Y is a recurrence of the same kind:

.. math::
    B_k &= c_k G + 2 S B_{k+1} - B_{k+2}, \qquad k = K, \dots, 1

    \partial X &= c_0 G + S B_1 - B_2

    \partial S_{ij} &= \sum_{k=1}^{K} (2 - [k = 1]) \langle B_k[i], T_{k-1}[j] \rangle

    \partial c_k &= \langle G, T_k \rangle

The recurrence of T runs backwards as well as forwards, T_(k-2) = 2 S T_(k-1) - T_k, from the last
two terms (its roots lie on the unit circle, so rounding does not grow). These two are all that is
kept between the passes, whatever the number of terms.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .series import Gradients, SeriesOperator


class AdjointOperator(SeriesOperator):
    """Computes S x and the gradient in the values of S: then training needs bounded memory."""

    def gather(self, x: Tensor) -> Any:
        """Return what product and gradient need of x [N, M] besides x itself; by default None."""
        return None

    @abstractmethod
    def product(self, x: Tensor, gathered: Any) -> Tensor:
        """Return S x, for x [N, M]."""

    @abstractmethod
    def add_gradient(
        self, totals: Sequence[Tensor], b: Tensor, t: Tensor, of_b: Any, of_t: Any, scale: float
    ) -> None:
        """Add `scale` times the gradient of <b, S t> in each of the values to `totals`.

        `of_b` and `of_t` are what `gather` returned for b and t.
        """

    def apply(self, x: Tensor) -> Tensor:
        """Return S x, for x [N, M]."""
        return self.product(x, self.gather(x))

    def step(
        self, term: Tensor, gathered: Any, before: Tensor | None, out: Tensor, alpha: float
    ) -> Tensor:
        """Write alpha S term - before into `out`, which may be the memory of `before`."""
        applied = alpha * self.product(term, gathered)
        return out.copy_(applied) if before is None else torch.sub(applied, before, out=out)

    def evaluate(self, x: Tensor, coefficients: Tensor, kept: Sequence[Tensor]) -> Tensor:
        """Sum the series; T_k is kept in the place (k - 1) % 2."""
        terms = kept or x.new_empty(2, *x.shape)
        rows = coefficients.unsqueeze(2)  # [K + 1, S, 1, C], to multiply rows
        before, term = x, x
        out = rows[0] * x
        for k in range(1, len(rows)):
            target = terms[(k - 1) % 2]
            # T_1 = S T_0 has no predecessor; and the memory of x itself is not written to.
            self.step(
                term, self.gather(term), None if k == 1 else before, target, 1 if k == 1 else 2
            )
            before, term = term, target
            out.addcmul_(rows[k], term)
        if len(rows) <= 2:
            terms[1].copy_(x)  # T_0
        return out

    def differentiate(
        self, kept: list[Tensor], coefficients: Tensor, grad: Tensor, needs: tuple[bool, bool]
    ) -> Gradients:
        """Differentiate the series, by its transpose, which is the operator itself."""
        last, num_channels = len(coefficients) - 1, coefficients.size(2)
        (needs_values, needs_coefficients), needs_terms = needs, any(needs)
        totals = tuple(torch.zeros_like(each) for each in self.values) if needs_values else None
        grad_c = torch.zeros_like(coefficients) if needs_coefficients else None
        term, before = (kept[(last - 1) % 2], kept[last % 2]) if needs_terms else (grad, grad)
        kept.clear()
        b, b_after = grad.new_zeros(2, *grad.shape[1:])
        _add_scales(b, coefficients[last], grad)
        for k in range(last - 1, -1, -1):
            # b = B_(k+1), b_after = B_(k+2), term = T_(k+1), before = T_k
            if grad_c is not None:
                grad_c[k + 1] = project(grad, term, num_channels)
            alpha, of_b = 1 if k == 0 else 2, self.gather(b)
            of_t = self.gather(before) if needs_terms else None
            if totals is not None:
                self.add_gradient(totals, b, before, of_b, of_t, alpha)
            t_out = None
            if needs_terms and k > 0:
                # What is kept must survive for a second backward pass.
                t_out = term if k < last - 2 else torch.empty_like(term)
                self.step(before, of_t, term, t_out, 2)
            self.step(b, of_b, b_after, b_after, alpha)
            b, b_after = b_after, b
            _add_scales(b, coefficients[k], grad)
            if t_out is not None:
                term, before = before, t_out
        if grad_c is not None:
            grad_c[0] = project(grad, before if last else term, num_channels)
        return b, totals, grad_c


def _add_scales(b: Tensor, coefficient: Tensor, grad: Tensor) -> None:
    """Add c_k G to B, summed over the scales, in place."""
    for weight, grad_of_scale in zip(coefficient, grad, strict=True):
        b.addcmul_(weight, grad_of_scale)


def project(grad: Tensor, term: Tensor, num_channels: int) -> Tensor:
    """Compute <G, T_k> [S, C]: summed over the rows, and over the columns where C is 1."""
    if num_channels == 1:
        return torch.linalg.vecdot(grad, term.unsqueeze(0)).sum(1, keepdim=True)
    return (grad * term).sum(1)
