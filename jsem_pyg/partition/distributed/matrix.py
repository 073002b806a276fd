"""The operator of a block of rows: products with its own columns while those of the halo travel."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...kernels.chebyshev import AdjointOperator, Operator
from ...kernels.chebyshev.series import differentiable_series
from ...kernels.chebyshev.torch_csr import csr_matrix

if TYPE_CHECKING:
    from .graph import DistributedGraph


class PlainHaloOperator(Operator):
    """Plain torch, term by term: the definition that the other is compared with.

    Differentiable as often as one likes; it holds every term, and messages of all slots.

    Args:
        graph: the rows.
        value: [nnz] entries in the slots.
        diagonal: [n] entries on the diagonal, or None.
    """

    def __init__(self, graph: "DistributedGraph", value: Tensor, diagonal: Tensor | None) -> None:
        self.num_nodes = graph.num_nodes
        self.graph, self.value, self.diagonal = graph, value, diagonal

    def apply(self, x: Tensor) -> Tensor:
        """Fetch the halo, gather, multiply, scatter-add."""
        messages = self.value.unsqueeze(-1) * self.graph.spread(x).index_select(0, self.graph.col)
        out = x.new_zeros(x.shape).index_add(0, self.graph.row, messages)
        return out if self.diagonal is None else out + self.diagonal.unsqueeze(-1) * x


class HaloOperator(AdjointOperator):
    """CSR products in bounded memory; one exchange of rows for each term, two at once backward.

    Args:
        graph: the rows.
        value: [nnz] entries in the slots.
        diagonal: [n] entries on the diagonal, or None.
    """

    def __init__(self, graph: "DistributedGraph", value: Tensor, diagonal: Tensor | None) -> None:
        self.num_nodes = graph.num_nodes
        self.graph = graph
        self.values = (value,) if diagonal is None else (value, diagonal)

    def series(self, x: Tensor, coefficients: Tensor, group: Tensor | None = None) -> Tensor:
        """See :class:`Operator`; a process without rows takes part in every exchange as well."""
        return differentiable_series(self, x, coefficients, group)

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
        pending = self.graph.halo.start_fetch(b, t)
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
        pending = self.graph.halo.start_fetch(term)
        self._multiply_inner(term, before, out, alpha)
        fetched = pending.wait()
        self._add_crossing(out, fetched, alpha)
        return fetched

    def _multiply_inner(
        self, term: Tensor, before: Tensor | None, out: Tensor, alpha: float
    ) -> None:
        """Write alpha S term - before into `out`, but for the columns of the halo."""
        inner = self.graph.inner
        s = csr_matrix(inner.csr, self.values[0][: inner.num_slots], self.num_nodes)
        if before is None:
            torch.addmm(term, s, term, beta=0, alpha=alpha, out=out)
        else:
            torch.addmm(before, s, term, beta=-1, alpha=alpha, out=out)
        if len(self.values) > 1:
            out.addcmul_(self.values[1].unsqueeze(-1), term, value=alpha)

    def _add_crossing(self, out: Tensor, fetched: Tensor, alpha: float) -> None:
        """Add alpha times the part of the product that the columns of the halo make."""
        crossing = self.graph.crossing
        if crossing.num_slots and out.numel():
            value = self.values[0][self.graph.inner.num_slots :]
            s = csr_matrix(crossing, value, fetched.size(0))
            out.index_add_(0, self.graph.halo.rows, s @ fetched, alpha=alpha)

    def _add_inner(self, totals: Sequence[Tensor], b: Tensor, t: Tensor, scale: float) -> None:
        inner = self.graph.inner
        if inner.num_slots and b.numel():
            total = csr_matrix(inner.csr, totals[0][: inner.num_slots], self.num_nodes)
            torch.sparse.sampled_addmm(total, b, t.t(), alpha=scale, out=total)
        if len(totals) > 1:
            totals[1].add_((b * t).sum(1), alpha=scale)

    def _add_crossing_gradient(
        self, totals: Sequence[Tensor], b: Tensor, fetched: Tensor, scale: float
    ) -> None:
        crossing = self.graph.crossing
        if crossing.num_slots and b.numel():
            value = totals[0][self.graph.inner.num_slots :]
            total = csr_matrix(crossing, value, fetched.size(0))
            rows = b.index_select(0, self.graph.halo.rows)
            torch.sparse.sampled_addmm(total, rows, fetched.t(), alpha=scale, out=total)
