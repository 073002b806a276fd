"""Fused steps of the recurrence on a GPU, in Triton.

A program owns some columns of a row. It gathers its neighbours' rows, several at a time, finishes
the recurrence in place of the term before the last, and adds every scale in the same pass; in the
adjoint, one gather of a neighbour's rows of B and T serves both products and the gradient of the
edge, of which each block of columns has a sum of its own: there are no atomics, and two runs agree
to the last bit. Numbers are stored in the type of x and added up in float32 (float64 for float64);
indices are int32, addresses int64. A series of K terms takes K launches in either direction, and
two sums at the end of the backward pass.

Programs start in reverse Cuthill-McKee order of their rows, so that rows in flight share neighbours
in the L2 cache; hubs start before all others, so that the last to finish is a short one.

The mathematics is in :mod:`.adjoint`. ``TRITON_INTERPRET=1``, set before Triton is imported, runs
the kernels on the CPU, for tests.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..csr import CSR
from ..ordering import Ordering, choose_for_series
from .operator import Gradients, RequiredGradients
from .recurrence import project
from .series import SeriesOperator

_BLOCK = 128  # columns that a program holds at a time: 16 bytes for each thread of one warp
_EDGES, _EDGES_BACK = 8, 4  # neighbours that are gathered at a time, forward and backward
_HUB = 8  # times the mean number of neighbours
_KEPT = 32  # terms whose products with the gradient are kept, a number for each row


class SparseOperator(SeriesOperator):
    """A sparse symmetric S, of a pattern of N rows and its values, fewer than 2^31.

    These are [nnz] or, with the diagonal of S beside a pattern without one, [nnz + N].
    """

    def __init__(self, csr: CSR, value: Tensor) -> None:
        if csr.num_slots >= 2**31:
            raise ValueError(
                f"Expected fewer than 2^31 edges for backend='triton' (got {csr.num_slots})."
            )
        self.num_nodes = csr.num_rows
        self.csr, self.values = csr, (value,)

    def evaluate(self, x: Tensor, coefficients: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
        """Sum the series; see :class:`.SeriesOperator`. T_k is kept in the place (k - 1) % 2."""
        x, terms, num_terms = x.contiguous(), x.new_empty(2, *x.shape), coefficients.size(0)
        if num_terms <= 2:
            terms[1].copy_(x)  # T_0
        if num_terms == 1:
            return (coefficients[0].unsqueeze(1) * x).to(x.dtype), terms
        call = _Call(self, x, coefficients, trains=keep)
        out = call.coefficients.new_empty(coefficients.size(1), *x.shape)
        before, term = x, x
        for k in range(1, num_terms):
            # T_1 = S T_0 has no predecessor; and the memory of x itself is not written to.
            target = terms[(k - 1) % 2]
            _step_kernel[call.grid](
                *call.matrix, term, before, target, out, call.coefficients[k - 1],
                IS_FIRST=k == 1, **call.shared,
            )  # fmt: skip
            before, term = term, target
        return out.to(x.dtype), terms

    def differentiate(
        self, kept: Tensor, coefficients: Tensor, grad: Tensor, required: RequiredGradients
    ) -> Gradients:
        """Differentiate; see :class:`.SeriesOperator`. It always goes through the terms, too."""
        grad, last = grad.contiguous(), coefficients.size(0) - 1
        call = _Call(self, grad, coefficients, trains=True)
        slopes = _Slopes(call, grad, last) if required.coefficients else None
        if last == 0:
            of_x = (call.coefficients[0].unsqueeze(1) * grad).sum(0).to(kept.dtype)
            if slopes is not None:
                slopes.project(0, kept[1])
            unused = (torch.zeros_like(self.values[0]),) if required.values else None
            return Gradients(of_x, unused, None if slopes is None else slopes.out)
        grad_values = call.coefficients.new_empty(call.grid[1], self.values[0].numel())
        term, before = kept[(last - 1) % 2], kept[last % 2]
        spare = list(torch.empty_like(kept))  # what is kept must survive for a second pass
        b, b_next = torch.empty_like(kept)
        for k in range(last - 1, -1, -1):
            # b holds B_(k+1), and b_next B_(k+2), which becomes B_k; the first step makes B_K.
            # before holds T_k, and term T_(k+1), in whose place or a spare one T_(k-1) is made.
            target = spare.pop() if spare else term
            places = (b, b) if slopes is None else slopes.places(k, before, term)
            _step_back_kernel[call.grid](
                *call.matrix, b, b_next, before, term, target, grad, grad_values,
                call.coefficients[k], *places, IS_FIRST=k == last - 1, IS_LAST=k == 0,
                HAS_SLOPES=slopes is not None and slopes.sums_rows,
                **call.shared | {"EDGES": _EDGES_BACK},
            )  # fmt: skip
            b, b_next = b_next, b
            before, term = target, before
            if slopes is not None:
                slopes.add_up(k)
        of_values = grad_values[0] if len(grad_values) == 1 else grad_values.sum(0)
        return Gradients(
            b, (of_values,) if required.values else None, None if slopes is None else slopes.out
        )


class _Slopes:
    """The gradient of the coefficients: <G, T_k>.

    A step of the adjoint leaves a number for each row; those of several terms are added up at once.
    Where channels have coefficients of their own, torch does the work.
    """

    def __init__(self, call: "_Call", grad: Tensor, last: int) -> None:
        self.grad, self.last = grad, last
        self.out = torch.empty_like(call.coefficients)  # [K + 1, S, C]
        self.sums_rows = self.out.size(-1) == 1 and last > 0
        num_rows, num_blocks = call.grid
        kept = min(last + 1, _KEPT) if self.sums_rows else 0
        self.rows = self.out.new_empty(kept, self.out.size(1), num_blocks * num_rows)

    def project(self, k: int, term: Tensor) -> None:
        """Compute the gradient of c_k by torch."""
        self.out[k] = project(self.grad, term, self.out.size(-1))

    def places(self, k: int, term: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """Return where a step writes its rows for c_k and, if it is the first, those for c_K."""
        if self.sums_rows:
            return self.rows[k % _KEPT], self.rows[(k + 1) % _KEPT]
        if k == self.last - 1:
            self.project(self.last, after)
        self.project(k, term)
        return self.out, self.out  # not used

    def add_up(self, k: int) -> None:
        """Add up the rows that are there after the step to k, before others take their places."""
        for begin in {self.last, k} if k == self.last - 1 else {k}:
            if self.sums_rows and begin % _KEPT == 0:
                end = min(begin + _KEPT, self.last + 1)
                rows, out = self.rows[: end - begin], self.out[begin:end]
                torch.sum(rows, 2, keepdim=True, out=out)


class _Pattern(NamedTuple):
    """A CSR pattern as the kernels read it, and the row of each program."""

    order: Tensor  # [N] int32
    rowptr: Tensor  # [N + 1] int32
    col: Tensor  # [nnz] int32


def _prepared(csr: CSR, ordering: Ordering) -> _Pattern:
    order = csr.derived(ordering).node
    length = csr.degree.cpu()[order]
    is_hub = length > _HUB * csr.num_slots / max(length.numel(), 1)
    order = torch.cat([order[is_hub], order[~is_hub]]).to(csr.col.device)
    return _Pattern(order.int(), csr.rowptr.int(), csr.col.int())


class _Call:
    """The arguments that all launches of a pass share."""

    def __init__(
        self, operator: SparseOperator, x: Tensor, coefficients: Tensor, trains: bool
    ) -> None:
        num_rows, num_columns = x.shape[-2:]
        row_bytes, visits = num_columns * x.element_size(), coefficients.size(0) - 1
        ordering = choose_for_series(operator.csr, row_bytes, visits, trains)
        pattern = operator.csr.derived(_prepared, ordering)
        values = operator.values[0].contiguous()
        self.matrix = (*pattern, values)
        self.coefficients = coefficients.to(values.dtype).contiguous()
        _, num_scales, num_channels = coefficients.shape
        block = min(triton.next_power_of_2(num_columns), _BLOCK)
        # Programs start block by block: what those in flight gather fits the cache more often.
        self.grid = (num_rows, triton.cdiv(num_columns, block))
        self.shared = {
            "num_scales": num_scales,
            "num_channels": num_channels,
            "num_rows": num_rows,
            "num_columns": num_columns,
            "num_slots": operator.csr.num_slots,
            "PER_CHANNEL": num_channels > 1,
            "HAS_DIAGONAL": values.numel() > operator.csr.num_slots,
            "EDGES": _EDGES,
            "BLOCK": block,
            "num_warps": 1,
        }


@triton.jit
def _weight(coefficient, scale, lanes, inside, num_channels, PER_CHANNEL: tl.constexpr):
    """Read a coefficient of a scale: for every column, or one for all."""
    if PER_CHANNEL:
        weight = tl.load(coefficient + scale * num_channels + lanes, mask=inside, other=0.0)
    else:
        weight = tl.load(coefficient + scale * num_channels)
    return weight


@triton.jit
def _step_kernel(
    order, rowptr, col, values, term, before, target, out, coefficient,
    num_scales, num_channels, num_rows, num_columns, num_slots,
    IS_FIRST: tl.constexpr, PER_CHANNEL: tl.constexpr, HAS_DIAGONAL: tl.constexpr,
    EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Make T_k and add c_k T_k to every scale; `coefficient` points to c_(k-1)."""
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    inside = lanes < num_columns
    here = row * num_columns + lanes
    total = tl.zeros([BLOCK], dtype=out.dtype.element_ty)
    if HAS_DIAGONAL:
        loop = tl.load(values + num_slots + row)
        own = lanes < tl.where(loop != 0.0, num_columns, 0)  # nothing is read where there is none
        total += loop * tl.load(term + here, mask=own, other=0.0).to(total.dtype)
    for edge in range(start, stop, EDGES):
        edges = edge + tl.arange(0, EDGES)  # [EDGES]
        real = edges < stop
        neighbour = tl.load(col + edges, mask=real, other=0).to(tl.int64)
        value = tl.load(values + edges, mask=real, other=0.0)
        there = neighbour[:, None] * num_columns + lanes[None, :]  # [EDGES, BLOCK]
        both = real[:, None] & inside[None, :]
        gathered = tl.load(term + there, mask=both, other=0.0).to(total.dtype)
        total += tl.sum(value[:, None] * gathered, axis=0)
    earlier = tl.load(before + here, mask=inside, other=0.0).to(total.dtype)  # T_0 at first
    if not IS_FIRST:
        total = 2 * total - earlier
    tl.store(target + here, total.to(target.dtype.element_ty), mask=inside)
    next_coefficient = coefficient + num_scales * num_channels
    for scale in range(num_scales):
        weight = _weight(next_coefficient, scale, lanes, inside, num_channels, PER_CHANNEL)
        at = out + (scale * num_rows + row) * num_columns + lanes
        if IS_FIRST:
            sofar = earlier * _weight(coefficient, scale, lanes, inside, num_channels, PER_CHANNEL)
        else:
            sofar = tl.load(at, mask=inside, other=0.0)
        tl.store(at, sofar + weight * total, mask=inside)


@triton.jit
def _weighed(
    grad, coefficient, there, mask, lanes, inside, num_scales, num_channels, size,
    sofar, PER_CHANNEL: tl.constexpr,
):  # fmt: skip
    """Add up c_k G over the scales, at the places `there` of one of them."""
    for scale in range(num_scales):
        weight = _weight(coefficient, scale, lanes, inside, num_channels, PER_CHANNEL)
        found = tl.load(grad + scale * size + there, mask=mask, other=0.0).to(sofar.dtype)
        sofar += weight * found
    return sofar


@triton.jit
def _step_back_kernel(
    order, rowptr, col, values, b, b_next, t, t_next, t_out, grad, grad_values, coefficient,
    slopes, slopes_of_last, num_scales, num_channels, num_rows, num_columns, num_slots,
    IS_FIRST: tl.constexpr, IS_LAST: tl.constexpr, HAS_SLOPES: tl.constexpr,
    PER_CHANNEL: tl.constexpr, HAS_DIAGONAL: tl.constexpr,
    EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Take the step from k + 1 to k; the first, from K, reads B_K = c_K G off the gradient."""
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    size = tl.num_programs(0).to(tl.int64) * num_columns  # of a scale
    twice = 1.0 if IS_LAST else 2.0  # of S B_1, and of the gradient that B_1 and T_0 make
    real_type = grad_values.dtype.element_ty
    num_values = num_slots + num_rows if HAS_DIAGONAL else num_slots
    grad_values += tl.program_id(1).to(tl.int64) * num_values
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    inside = lanes < num_columns
    here = row * num_columns + lanes
    own_t = tl.load(t + here, mask=inside, other=0.0).to(real_type)  # [BLOCK]
    last_t = tl.load(t_next + here, mask=inside, other=0.0).to(real_type)
    last_coefficient = coefficient + num_scales * num_channels
    if IS_FIRST:
        own_b = _weighed(
            grad, last_coefficient, here, inside, lanes, inside, num_scales, num_channels, size,
            tl.zeros([BLOCK], dtype=real_type), PER_CHANNEL,
        )  # fmt: skip
        tl.store(b + here, own_b.to(b.dtype.element_ty), mask=inside)
    else:
        own_b = tl.load(b + here, mask=inside, other=0.0).to(real_type)
    total_b = tl.zeros([BLOCK], dtype=real_type)
    total_t = tl.zeros([BLOCK], dtype=real_type)
    if HAS_DIAGONAL:
        loop = tl.load(values + num_slots + row)
        total_b += loop * own_b
        total_t += loop * own_t
        of_loop = twice * tl.sum(own_b * own_t, axis=0)
        if not IS_FIRST:
            of_loop += tl.load(grad_values + num_slots + row)
        tl.store(grad_values + num_slots + row, of_loop)
    for edge in range(start, stop, EDGES):
        edges = edge + tl.arange(0, EDGES)  # [EDGES]
        real = edges < stop
        neighbour = tl.load(col + edges, mask=real, other=0).to(tl.int64)
        value = tl.load(values + edges, mask=real, other=0.0)
        there = neighbour[:, None] * num_columns + lanes[None, :]  # [EDGES, BLOCK]
        both = real[:, None] & inside[None, :]
        if IS_FIRST:
            other_b = _weighed(
                grad, last_coefficient, there, both, lanes, inside, num_scales, num_channels, size,
                tl.zeros([EDGES, BLOCK], dtype=real_type), PER_CHANNEL,
            )  # fmt: skip
        else:
            other_b = tl.load(b + there, mask=both, other=0.0).to(real_type)
        other_t = tl.load(t + there, mask=both, other=0.0).to(real_type)
        total_b += tl.sum(value[:, None] * other_b, axis=0)
        total_t += tl.sum(value[:, None] * other_t, axis=0)
        product = twice * tl.sum(own_b[None, :] * other_t, axis=1)  # [EDGES]
        if not IS_FIRST:
            product += tl.load(grad_values + edges, mask=real, other=0.0)
        tl.store(grad_values + edges, product, mask=real)
    total_b = twice * total_b
    if not IS_FIRST:
        total_b -= tl.load(b_next + here, mask=inside, other=0.0).to(real_type)
    for scale in range(num_scales):
        weight = _weight(coefficient, scale, lanes, inside, num_channels, PER_CHANNEL)
        own_grad = tl.load(grad + scale * size + here, mask=inside, other=0.0).to(real_type)
        total_b += weight * own_grad
        if HAS_SLOPES:
            block = scale * tl.num_programs(1) + tl.program_id(1)
            place = block.to(tl.int64) * num_rows + row
            tl.store(slopes + place, tl.sum(own_grad * own_t, axis=0))
            if IS_FIRST:
                tl.store(slopes_of_last + place, tl.sum(own_grad * last_t, axis=0))
    tl.store(b_next + here, total_b.to(b_next.dtype.element_ty), mask=inside)
    if not IS_LAST:
        total_t = 2 * total_t - last_t
        tl.store(t_out + here, total_t.to(t_out.dtype.element_ty), mask=inside)
