"""Fused steps of the recurrence on a GPU, in Triton.

A program owns a row. It gathers its neighbours' rows, several at a time, finishes the recurrence in
place of the term before the last, and adds every scale in the same pass; in the adjoint, one gather
of a neighbour's rows of B and T serves both products and the gradient of the edge, which no other
program touches: there are no atomics, and two runs agree to the last bit. Numbers are stored in the
type of x and added up in float32 (float64 for float64); indices are int32, addresses int64.

Programs start in reverse Cuthill-McKee order of their rows, so that rows in flight share neighbours
in the L2 cache; hubs start before all others, so that the last to finish is a short one.

The mathematics is in :mod:`.adjoint`. ``TRITON_INTERPRET=1``, set before Triton is imported, runs
the kernels on the CPU, for tests.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..csr import CSR
from ..ordering import Ordering, choose_for_series
from .launch_graphs import LaunchGraphs, Recordings
from .operator import Gradients, Needs, SeriesOperator
from .recurrence import project

_BLOCK = 128  # columns that a program holds at a time: 16 bytes for each thread of one warp
_EDGES = 8  # neighbours that are gathered at a time
_HUB = 8  # times the mean number of neighbours

# The launches of a pass, recorded once and replayed: for graphs so small that the gaps between
# launches weigh. Off until somebody has measured it: set `launch_graphs.is_enabled`.
launch_graphs = LaunchGraphs()


class SparseOperator(SeriesOperator):
    """A sparse symmetric S.

    Args:
        csr: the pattern, with N rows.
        value: [nnz] the entries.

    Raises:
        ValueError: if there are more entries than int32 can count.
    """

    def __init__(self, csr: CSR, value: Tensor) -> None:
        if csr.num_slots >= 2**31:
            raise ValueError(
                f"Expected fewer than 2^31 edges for backend='triton' (got {csr.num_slots})."
            )
        self.num_nodes = csr.num_rows
        self.csr, self.values = csr, (value,)

    def evaluate(
        self, x: Tensor, coefficients: Tensor, group: Tensor | None, keep: bool
    ) -> tuple[Tensor, Tensor]:
        """Forward; see :class:`.SeriesOperator`. T_k is kept in the place (k - 1) % 2."""
        inputs = (self.values[0], x, coefficients, group)
        pattern = self._pattern(x, coefficients, trains=keep)
        out, terms = launch_graphs.run(_Forward, pattern, inputs)
        return out.to(x.dtype), terms  # asked for or not: the adjoint takes them along

    def differentiate(
        self, kept: Tensor, coefficients: Tensor, group: Tensor | None, grad: Tensor, needs: Needs
    ) -> Gradients:
        """Backward; see :class:`.SeriesOperator`."""
        kind = _Backward if needs.coefficients else _BackwardAtFixedTime
        inputs = (self.values[0], grad, kept, coefficients, group)
        pattern = self._pattern(grad, coefficients, trains=True)
        grad_x, grad_value, grad_coefficients = launch_graphs.run(kind, pattern, inputs)
        return Gradients(
            grad_x,
            (grad_value,) if needs.values else None,
            grad_coefficients if needs.coefficients else None,
        )

    def _pattern(self, x: Tensor, coefficients: Tensor, trains: bool) -> "_Pattern":
        row_bytes, visits = x.size(-1) * x.element_size(), coefficients.size(0) - 1
        ordering = choose_for_series(self.csr, row_bytes, visits, trains)
        return self.csr.derived(_prepared, ordering)


class _Pattern(NamedTuple):
    """A CSR pattern as the kernels read it, and the row of each program."""

    order: Tensor  # [N] int32
    rowptr: Tensor  # [N + 1] int32
    col: Tensor  # [nnz] int32
    recordings: Recordings


def _prepared(csr: CSR, ordering: Ordering) -> _Pattern:
    order = csr.derived(ordering).node
    length = csr.degree.cpu()[order]
    is_hub = length > _HUB * csr.num_slots / max(length.numel(), 1)
    order = torch.cat([order[is_hub], order[~is_hub]]).to(csr.col.device)
    return _Pattern(order.int(), csr.rowptr.int(), csr.col.int(), Recordings())


class _Pass:
    """What both passes hand to their kernels."""

    def __init__(
        self, pattern: _Pattern, values: Tensor, x: Tensor, coefficients: Tensor, group: Any
    ) -> None:
        self.matrix = (pattern.order, pattern.rowptr, pattern.col, values)
        self.coefficients = coefficients
        # Where there are no groups, this is not read.
        self.group = pattern.order if group is None else group
        _, num_scales, num_groups, num_channels = coefficients.shape
        num_rows, num_columns = x.shape[-2:]
        self.grid = (num_rows,)
        self.shared = {
            "num_scales": num_scales,
            "num_groups": num_groups,
            "num_channels": num_channels,
            "num_rows": num_rows,
            "num_columns": num_columns,
            "HAS_GROUPS": group is not None,
            "PER_CHANNEL": num_channels > 1,
            "EDGES": _EDGES,
            "BLOCK": min(triton.next_power_of_2(num_columns), _BLOCK),
            "num_warps": 1,
        }

    def weigh(self, k: int, x: Tensor) -> Tensor:
        """c_k x, for every scale."""
        coefficient = self.coefficients[k]
        if self.shared["HAS_GROUPS"]:
            coefficient = coefficient.index_select(1, self.group)
        return coefficient * x


class _Forward(_Pass):
    """Y = sum_k c_k T_k(S) X, and the last two terms; on memory that stays the same."""

    def __init__(
        self, pattern: _Pattern, values: Tensor, x: Tensor, coefficients: Tensor, group: Any
    ) -> None:
        super().__init__(pattern, values, x, coefficients, group)
        self.x = x
        self.out = values.new_empty(coefficients.size(1), *x.shape)
        self.terms = x.new_empty(2, *x.shape)

    def launch(self) -> tuple[Tensor, ...]:
        """Fill the memory; the result, and the last two terms."""
        self.out.copy_(self.weigh(0, self.x))
        before, term = self.x, self.x
        for k in range(1, self.coefficients.size(0)):
            # T_1 = S T_0 has no predecessor; and the memory of x itself is not written to.
            target = self.terms[(k - 1) % 2]
            _step_kernel[self.grid](
                *self.matrix, term, before, target, self.out, self.coefficients[k], self.group,
                IS_FIRST=k == 1, **self.shared,
            )  # fmt: skip
            before, term = term, target
        if self.coefficients.size(0) <= 2:
            self.terms[1].copy_(self.x)  # T_0
        return self.out, self.terms


class _Backward(_Pass):
    """The adjoint of `_Forward`; on memory that stays the same. It always needs the terms."""

    needs_coefficients = True

    def __init__(
        self,
        pattern: _Pattern,
        values: Tensor,
        grad: Tensor,
        kept: Tensor,
        coefficients: Tensor,
        group: Any,
    ) -> None:
        super().__init__(pattern, values, grad, coefficients, group)
        self.grad, self.kept = grad, kept
        self.terms, self.adjoints = kept.new_empty(2, 2, *grad.shape[1:])
        self.grad_values = torch.empty_like(values)
        self.grad_coefficients = torch.empty_like(coefficients)

    def launch(self) -> tuple[Tensor, ...]:
        """Fill the memory; the gradients of x, the values and the coefficients."""
        b, b_next = self.adjoints
        last = self.coefficients.size(0) - 1
        self.terms.copy_(self.kept)  # which must survive for a second backward pass
        term, before = self.terms[(last - 1) % 2], self.terms[last % 2]
        b.copy_(self.weigh(last, self.grad).sum(0))
        b_next.zero_()
        self.grad_values.zero_()
        self._project(last, term)
        for k in range(last - 1, -1, -1):
            # b holds B_(k+1), and b_next B_(k+2), which becomes B_k;
            # before holds T_k, and term T_(k+1), which becomes T_(k-1).
            self._project(k, before)
            _step_back_kernel[self.grid](
                *self.matrix, b, b_next, before, term, self.grad, self.grad_values,
                self.coefficients[k], self.group, IS_LAST=k == 0, **self.shared,
            )  # fmt: skip
            b, b_next = b_next, b
            before, term = term, before
        return b, self.grad_values, self.grad_coefficients

    def _project(self, k: int, term: Tensor) -> None:
        if self.needs_coefficients:
            group = self.group if self.shared["HAS_GROUPS"] else None
            self.grad_coefficients[k] = project(self.grad, term, self.coefficients, group)


class _BackwardAtFixedTime(_Backward):
    """The same where nobody asks for the gradients of the coefficients: they stay undefined."""

    needs_coefficients = False


@triton.jit
def _step_kernel(
    order, rowptr, col, values, term, before, target, out, coefficient, group,
    num_scales, num_groups, num_channels, num_rows, num_columns,
    IS_FIRST: tl.constexpr, HAS_GROUPS: tl.constexpr, PER_CHANNEL: tl.constexpr,
    EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    own_group = tl.load(group + row) if HAS_GROUPS else 0
    for first in range(0, num_columns, BLOCK):
        lanes = first + tl.arange(0, BLOCK)  # [BLOCK]
        inside = lanes < num_columns
        here = row * num_columns + lanes
        total = tl.zeros([BLOCK], dtype=out.dtype.element_ty)
        for edge in range(start, stop, EDGES):
            edges = edge + tl.arange(0, EDGES)  # [EDGES]
            real = edges < stop
            neighbour = tl.load(col + edges, mask=real, other=0).to(tl.int64)
            value = tl.load(values + edges, mask=real, other=0.0)
            there = neighbour[:, None] * num_columns + lanes[None, :]  # [EDGES, BLOCK]
            both = real[:, None] & inside[None, :]
            gathered = tl.load(term + there, mask=both, other=0.0).to(total.dtype)
            total += tl.sum(value[:, None] * gathered, axis=0)
        if not IS_FIRST:
            total = 2 * total - tl.load(before + here, mask=inside, other=0.0).to(total.dtype)
        tl.store(target + here, total.to(target.dtype.element_ty), mask=inside)
        for scale in range(num_scales):
            place = (scale * num_groups + own_group) * num_channels
            if PER_CHANNEL:
                weight = tl.load(coefficient + place + lanes, mask=inside, other=0.0)  # [BLOCK]
            else:
                weight = tl.load(coefficient + place)
            at = out + (scale * num_rows + row) * num_columns + lanes
            tl.store(at, tl.load(at, mask=inside, other=0.0) + weight * total, mask=inside)


@triton.jit
def _step_back_kernel(
    order, rowptr, col, values, b, b_next, t, t_next, grad, grad_values, coefficient, group,
    num_scales, num_groups, num_channels, num_rows, num_columns,
    IS_LAST: tl.constexpr, HAS_GROUPS: tl.constexpr, PER_CHANNEL: tl.constexpr,
    EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    own_group = tl.load(group + row) if HAS_GROUPS else 0
    twice = 1.0 if IS_LAST else 2.0  # of S B_1, and of the gradient that B_1 and T_0 make
    real_type = grad_values.dtype.element_ty
    for first in range(0, num_columns, BLOCK):
        lanes = first + tl.arange(0, BLOCK)  # [BLOCK]
        inside = lanes < num_columns
        here = row * num_columns + lanes
        own_b = tl.load(b + here, mask=inside, other=0.0).to(real_type)  # [BLOCK]
        total_b = tl.zeros([BLOCK], dtype=real_type)
        total_t = tl.zeros([BLOCK], dtype=real_type)
        for edge in range(start, stop, EDGES):
            edges = edge + tl.arange(0, EDGES)  # [EDGES]
            real = edges < stop
            neighbour = tl.load(col + edges, mask=real, other=0).to(tl.int64)
            value = tl.load(values + edges, mask=real, other=0.0)
            there = neighbour[:, None] * num_columns + lanes[None, :]  # [EDGES, BLOCK]
            both = real[:, None] & inside[None, :]
            other_b = tl.load(b + there, mask=both, other=0.0).to(real_type)
            other_t = tl.load(t + there, mask=both, other=0.0).to(real_type)
            total_b += tl.sum(value[:, None] * other_b, axis=0)
            total_t += tl.sum(value[:, None] * other_t, axis=0)
            product = tl.sum(own_b[None, :] * other_t, axis=1)  # [EDGES]
            sofar = tl.load(grad_values + edges, mask=real, other=0.0)
            tl.store(grad_values + edges, sofar + twice * product, mask=real)
        total_b = twice * total_b - tl.load(b_next + here, mask=inside, other=0.0).to(real_type)
        total_t = 2 * total_t - tl.load(t_next + here, mask=inside, other=0.0).to(real_type)
        for scale in range(num_scales):
            place = (scale * num_groups + own_group) * num_channels
            if PER_CHANNEL:
                weight = tl.load(coefficient + place + lanes, mask=inside, other=0.0)  # [BLOCK]
            else:
                weight = tl.load(coefficient + place)
            at = grad + (scale * num_rows + row) * num_columns + lanes
            total_b += weight * tl.load(at, mask=inside, other=0.0).to(real_type)
        tl.store(b_next + here, total_b.to(b_next.dtype.element_ty), mask=inside)
        tl.store(t_next + here, total_t.to(t_next.dtype.element_ty), mask=inside)
