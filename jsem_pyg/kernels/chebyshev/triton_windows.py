"""The steps of :mod:`.triton_steps` for windows of 16 rows, which gather their neighbours together.

Rows that share neighbours stand in one window (`kernels/ordering.py`). A program gathers the row of
every neighbour once for all of them, 32 at a time, and multiplies it by a block of S, [16, 32] with
zeros. The blocks are made on the way: of a neighbour the pattern has 16 bits, one for each row that
has an edge to it, and the place of the first of these edges.

Products of float32 are three of TF32, as in the kernels of Sinkhorn steps.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..csr import CSR
from ..ordering import ROWS, Ordering, given_order, locality_order, reuse
from .triton_steps import finish_step, finish_step_back

_LEAST = 1.25  # edges for each entry; where there are fewer, windows gather hardly less than rows


class Windows(NamedTuple):
    """A CSR pattern as the kernels read it. An entry is a neighbour of a window."""

    order: Tensor  # [W, 16] int32 the rows of each window; N beyond the last one
    start: Tensor  # [W + 1] int32 where the entries of each window begin
    neighbour: Tensor  # [M] int32
    member: Tensor  # [M] int32 bit r is set if row r of the window has an edge to it
    first: Tensor  # [M] int32 where its edges begin in `slot`
    slot: Tensor  # [nnz] int32 slots in the order of windows, neighbours and rows


def reused_windows(csr: CSR) -> Windows | None:
    """Make windows in the given order or that of :mod:`..locality`; None if both share little."""
    ordering = max(given_order, locality_order, key=lambda each: reuse(csr, each))
    return windows_of(csr, ordering) if reuse(csr, ordering) >= _LEAST else None


def windows_of(csr: CSR, ordering: Ordering) -> Windows:
    """Make the windows of an order."""
    device, num_rows = csr.col.device, csr.num_rows
    order, place = (each.to(device).long() for each in csr.derived(ordering))
    order = torch.cat([order, order.new_full((-num_rows % ROWS,), num_rows)]).view(-1, ROWS)
    place = place[csr.row.long()]
    entry = place // ROWS * num_rows + csr.col  # a number for each entry
    slot = (entry * ROWS + place % ROWS).argsort()
    entry, at, count = entry[slot].unique_consecutive(return_inverse=True, return_counts=True)
    bits = torch.ones_like(place) << place[slot] % ROWS
    member = torch.zeros_like(entry).index_add_(0, at, bits)
    start = torch.searchsorted(entry, torch.arange(len(order) + 1, device=device) * num_rows)
    found = order, start, entry % max(num_rows, 1), member, count.cumsum(0) - count, slot
    return Windows(*(each.int() for each in found))


@triton.jit
def _block_of_edges(neighbours, members, firsts, slots, entries, stop, ROWS: tl.constexpr):
    """Read neighbours [ENTRIES], and the slots [ROWS, ENTRIES] of the edges that lead to them."""
    real = entries < stop
    neighbour = tl.load(neighbours + entries, mask=real, other=0).to(tl.int64)
    bits = tl.load(members + entries, mask=real, other=0)[None, :]
    row = tl.arange(0, ROWS)[:, None]
    is_edge = ((bits >> row) & 1) == 1
    before = bits & ((1 << row) - 1)  # edges of the rows above, which are counted in pairs and on
    before = (before & 0x5555) + ((before >> 1) & 0x5555)
    before = (before & 0x3333) + ((before >> 2) & 0x3333)
    before = (before & 0x0F0F) + ((before >> 4) & 0x0F0F)
    before = (before & 0x00FF) + (before >> 8)
    first = tl.load(firsts + entries, mask=real, other=0)[None, :]
    return neighbour, real, is_edge, tl.load(slots + first + before, mask=is_edge, other=0)


@triton.jit
def window_step_kernel(
    order, starts, neighbours, members, firsts, slots, values, term, before, target, out,
    coefficient, num_scales, num_rows, num_columns, num_slots,
    IS_FIRST: tl.constexpr, PER_CHANNEL: tl.constexpr, HAS_DIAGONAL: tl.constexpr,
    ROWS: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Make T_k and add c_k T_k to every scale; `coefficient` points to c_(k-1)."""
    window = tl.program_id(0).to(tl.int64)
    row = tl.load(order + window * ROWS + tl.arange(0, ROWS)).to(tl.int64)  # [ROWS]
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    inside = (row < num_rows)[:, None] & (lanes < num_columns)[None, :]
    here = row[:, None] * num_columns + lanes[None, :]
    total = tl.zeros([ROWS, BLOCK], dtype=out.dtype.element_ty)
    if HAS_DIAGONAL:
        loop = tl.load(values + num_slots + row, mask=row < num_rows, other=0.0)[:, None]
        total += loop * tl.load(term + here, mask=inside & (loop != 0.0), other=0.0).to(total.dtype)
    stop = tl.load(starts + window + 1)
    for entry in range(tl.load(starts + window), stop, EDGES):
        neighbour, real, is_edge, slot = _block_of_edges(
            neighbours, members, firsts, slots, entry + tl.arange(0, EDGES), stop, ROWS
        )
        value = tl.load(values + slot, mask=is_edge, other=0.0)  # [ROWS, EDGES]
        there = neighbour[:, None] * num_columns + lanes[None, :]  # [EDGES, BLOCK]
        both = real[:, None] & (lanes < num_columns)[None, :]
        gathered = tl.load(term + there, mask=both, other=0.0).to(total.dtype)
        total = tl.dot(value, gathered, total, input_precision=PRECISION, out_dtype=total.dtype)
    finish_step(
        total, before, target, out, coefficient, here, inside, lanes,
        num_scales, num_rows, num_columns, IS_FIRST, PER_CHANNEL,
    )  # fmt: skip


@triton.jit
def window_step_back_kernel(
    order, starts, neighbours, members, firsts, slots, values, b, b_next, t, t_next, t_out, grad,
    grad_values, coefficient, slopes, num_scales, num_rows, num_columns, num_slots,
    IS_LAST: tl.constexpr, PER_CHANNEL: tl.constexpr, HAS_DIAGONAL: tl.constexpr,
    ROWS: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Take the step from k + 1 to k; see :func:`.triton_gpu._differentiate`."""
    window = tl.program_id(0).to(tl.int64)
    row = tl.load(order + window * ROWS + tl.arange(0, ROWS)).to(tl.int64)  # [ROWS]
    twice = 1.0 if IS_LAST else 2.0  # of S B_1, and of the gradient that B_1 and T_0 make
    real_type = grad_values.dtype.element_ty
    num_values = num_slots + num_rows if HAS_DIAGONAL else num_slots
    grad_values += tl.program_id(1).to(tl.int64) * num_values
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    inside = (row < num_rows)[:, None] & (lanes < num_columns)[None, :]
    here = row[:, None] * num_columns + lanes[None, :]
    own_b = tl.load(b + here, mask=inside, other=0.0).to(real_type)  # [ROWS, BLOCK]
    own_t = tl.load(t + here, mask=inside, other=0.0).to(real_type)
    total_b = tl.zeros([ROWS, BLOCK], dtype=real_type)
    total_t = tl.zeros([ROWS, BLOCK], dtype=real_type)
    if HAS_DIAGONAL:
        loops = num_slots + row
        loop = tl.load(values + loops, mask=row < num_rows, other=0.0)[:, None]
        total_b += loop * own_b
        total_t += loop * own_t
        of_loop = twice * tl.sum(own_b * own_t, axis=1)
        of_loop += tl.load(grad_values + loops, mask=row < num_rows, other=0.0)
        tl.store(grad_values + loops, of_loop, mask=row < num_rows)
    stop = tl.load(starts + window + 1)
    for entry in range(tl.load(starts + window), stop, EDGES):
        neighbour, real, is_edge, slot = _block_of_edges(
            neighbours, members, firsts, slots, entry + tl.arange(0, EDGES), stop, ROWS
        )
        value = tl.load(values + slot, mask=is_edge, other=0.0)  # [ROWS, EDGES]
        there = neighbour[:, None] * num_columns + lanes[None, :]  # [EDGES, BLOCK]
        both = real[:, None] & (lanes < num_columns)[None, :]
        other_b = tl.load(b + there, mask=both, other=0.0).to(real_type)
        other_t = tl.load(t + there, mask=both, other=0.0).to(real_type)
        total_b = tl.dot(value, other_b, total_b, input_precision=PRECISION, out_dtype=real_type)
        total_t = tl.dot(value, other_t, total_t, input_precision=PRECISION, out_dtype=real_type)
        product = twice * tl.dot(
            own_b, tl.trans(other_t), input_precision=PRECISION, out_dtype=real_type
        )
        product += tl.load(grad_values + slot, mask=is_edge, other=0.0)
        tl.store(grad_values + slot, product, mask=is_edge)
    finish_step_back(
        twice * total_b, total_t, own_t, b_next, t_next, t_out, grad, coefficient, slopes,
        row, here, inside, lanes, num_scales, num_rows, num_columns, IS_LAST, PER_CHANNEL,
    )  # fmt: skip
