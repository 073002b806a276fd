"""The operator of some rows: products with their own columns while the halo travels."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...kernels.chebyshev import AdjointOperator, Operator
from ...kernels.chebyshev.series import differentiable_series
from ...kernels.chebyshev.torch_csr import csr_matrix
from ...kernels.csr import CSR
from .routes import Halo


class HaloPattern(NamedTuple):
    """The slots of some rows: first those whose column is a row as well, then those that cross."""

    inner: CSR  # slots whose column is a row of this process
    crossing: CSR  # slots whose column is in the halo, by rows that have a neighbour there
    halo: Halo
    row: Tensor  # [nnz] the row of each slot
    col: Tensor  # [nnz] its column: a row of this process, or n plus a place in the halo

    @property
    def num_rows(self) -> int:
        """The number n of rows of this process."""
        return self.inner.num_rows

    def agree_on_terms(self, count: int) -> int:
        """See :class:`Operator`: every term is an exchange, in which all processes take part."""
        return int(self.halo.ranks.largest(torch.tensor([count])))


class PlainHaloOperator(Operator):
    """Plain torch, term by term: the reference for :class:`HaloOperator`.

    Differentiable any number of times; it holds every term, and messages of all slots.
    """

    def __init__(self, pattern: HaloPattern, value: Tensor, diagonal: Tensor | None) -> None:
        self.num_nodes = pattern.num_rows
        self.pattern, self.value, self.diagonal = pattern, value, diagonal

    def apply(self, x: Tensor) -> Tensor:
        """Fetch the halo, gather, multiply, scatter-add."""
        _, _, halo, row, col = self.pattern
        messages = self.value.unsqueeze(-1) * halo.spread(x).index_select(0, col)
        out = x.new_zeros(x.shape).index_add(0, row, messages)
        return out if self.diagonal is None else out + self.diagonal.unsqueeze(-1) * x

    def _agree_on_terms(self, count: int) -> int:
        return self.pattern.agree_on_terms(count)


class HaloOperator(AdjointOperator):
    """CSR products in bounded memory; one exchange of rows for each term, two at once backward."""

    def __init__(self, pattern: HaloPattern, value: Tensor, diagonal: Tensor | None) -> None:
        self.num_nodes = pattern.num_rows
        self.pattern = pattern
        self.values = (value,) if diagonal is None else (value, diagonal)

    def series(self, x: Tensor, coefficients: Tensor) -> Tensor:
        """See :class:`Operator`; a process without rows takes part in every exchange as well."""
        return differentiable_series(self, x, coefficients)

    def _agree_on_terms(self, count: int) -> int:
        return self.pattern.agree_on_terms(count)

    def product(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """One product, and the rows of the halo."""
        out = torch.empty_like(x)
        return out, self._step(x, None, out, 1)

    def step(self, term: Tensor, before: Tensor | None, out: Tensor, alpha: float) -> None:
        """See :class:`AdjointOperator`."""
        self._step(term, before, out, alpha)

    def step_back(
        self,
        b: Tensor,
        b_after: Tensor,
        t: Tensor,
        t_after: Tensor,
        t_out: Tensor | None,
        totals: Sequence[Tensor] | None,
        alpha: float,
    ) -> None:
        """See :class:`AdjointOperator`: the halos of both recurrences travel together."""
        if totals is None and t_out is None:
            self._step(b, b_after, b_after, alpha)
            return
        pending = self.pattern.halo.start_fetch(b, t)
        # The gradient first: then B_(k+1) and T_k may be overwritten.
        if totals is not None:
            self._add_inner(totals, b, t, alpha)
        self._multiply_inner(b, b_after, b_after, alpha)
        if t_out is not None:
            self._multiply_inner(t, t_after, t_out, 2)
        of_b, of_t = pending.wait().split([b.size(1), t.size(1)], dim=1)
        self._add_crossing(b_after, of_b.contiguous(), alpha)
        of_t = of_t.contiguous()
        if t_out is not None:
            self._add_crossing(t_out, of_t, 2)
        if totals is not None:
            self._add_crossing_gradient(totals, b, of_t, alpha)

    def add_gradient(
        self, totals: Sequence[Tensor], b: Tensor, t: Tensor, of_b: Any, of_t: Any, scale: float
    ) -> None:
        """<b[i], t[j]> on the slots alone, and on the diagonal."""
        self._add_inner(totals, b, t, scale)
        self._add_crossing_gradient(totals, b, of_t, scale)

    def _step(self, term: Tensor, before: Tensor | None, out: Tensor, alpha: float) -> Tensor:
        pending = self.pattern.halo.start_fetch(term)
        self._multiply_inner(term, before, out, alpha)
        fetched = pending.wait()
        self._add_crossing(out, fetched, alpha)
        return fetched

    def _multiply_inner(
        self, term: Tensor, before: Tensor | None, out: Tensor, alpha: float
    ) -> None:
        """Write alpha S term - before into `out`, without the columns of the halo."""
        inner = self.pattern.inner
        s = csr_matrix(inner, self.values[0][: inner.num_slots], self.num_nodes)
        if before is None:
            torch.addmm(term, s, term, beta=0, alpha=alpha, out=out)
        else:
            torch.addmm(before, s, term, beta=-1, alpha=alpha, out=out)
        if len(self.values) > 1:
            out.addcmul_(self.values[1].unsqueeze(-1), term, value=alpha)

    def _add_crossing(self, out: Tensor, fetched: Tensor, alpha: float) -> None:
        """Add alpha times the product with the columns of the halo."""
        crossing = self.pattern.crossing
        if crossing.num_slots and out.numel():
            value = self.values[0][self.pattern.inner.num_slots :]
            s = csr_matrix(crossing, value, fetched.size(0))
            out.index_add_(0, self.pattern.halo.rows, s @ fetched, alpha=alpha)

    def _add_inner(self, totals: Sequence[Tensor], b: Tensor, t: Tensor, scale: float) -> None:
        inner = self.pattern.inner
        if inner.num_slots and b.numel():
            total = csr_matrix(inner, totals[0][: inner.num_slots], self.num_nodes)
            torch.sparse.sampled_addmm(total, b, t.t(), alpha=scale, out=total)
        if len(totals) > 1:
            totals[1].add_((b * t).sum(1), alpha=scale)

    def _add_crossing_gradient(
        self, totals: Sequence[Tensor], b: Tensor, fetched: Tensor, scale: float
    ) -> None:
        crossing = self.pattern.crossing
        if crossing.num_slots and b.numel():
            value = totals[0][self.pattern.inner.num_slots :]
            total = csr_matrix(crossing, value, fetched.size(0))
            rows = b.index_select(0, self.pattern.halo.rows)
            torch.sparse.sampled_addmm(total, rows, fetched.t(), alpha=scale, out=total)
