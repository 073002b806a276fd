r"""The entries of the normalised S and their gradient, in two or three kernels each.

For weights W and conductances h, the same in both directions, and a loop of weight l at each node:

.. math::
    w_{ij} = W_{ij} h_{ij}, \quad m_i = \sum_j w_{ij} / \sum_j W_{ij}, \quad
    d_i = l + \sum_j w_{ij} u_i u_j, \quad S_{ij} = a_i a_j w_{ij}, \quad S_{ii} = l / d_i

with :math:`a_i = u_i / \sqrt{d_i}`, and :math:`u_i = 1 / \sqrt{m_i}` if there are conductances and
loops, else one. A node without edges and loop has :math:`S_{ii} = 1`: it keeps its features.
Numbers are added up in float64. There are no atomics: two runs agree to the last bit.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

_ROW_OPTIONS = {"EDGES": 32, "num_warps": 1}  # edges of a row that a program reads at a time
_BLOCK = 256  # slots of a program that looks at no rows


class Slots(NamedTuple):
    """The pattern of a graph without repeated edges."""

    rowptr: Tensor  # [N + 1]
    row: Tensor  # [nnz]
    col: Tensor  # [nnz]
    reverse: Tensor  # [nnz] the slot of (j, i)
    edge: Tensor | None  # [nnz] the place of each slot's edge in weights [E]; None: its own


def normalized_entries(
    slots: Slots,
    edge_weight: Tensor | None,
    conductance: Tensor | None,
    self_loop: float,
    dtype: torch.dtype,
) -> Tensor:
    """Compute S for weights [E] and conductances [E] -> [nnz + N], the last N on the diagonal."""
    found: Tensor = _Entries.apply(slots, self_loop, dtype, edge_weight, conductance)
    return found


class _Entries(torch.autograd.Function):
    """(slots, self_loop, dtype, edge_weight, conductance) -> the entries."""

    @staticmethod
    def forward(
        ctx: Any,
        slots: Slots,
        self_loop: float,
        dtype: torch.dtype,
        edge_weight: Tensor | None,
        conductance: Tensor | None,
    ) -> Tensor:
        num_rows, num_slots = slots.rowptr.numel() - 1, slots.col.numel()
        given = [None if each is None else each.contiguous() for each in (edge_weight, conductance)]
        weight = slots.rowptr.new_empty(num_slots, dtype=torch.float64)
        nodes = slots.rowptr.new_empty(4, num_rows, dtype=torch.float64)
        entries = weight.new_empty(num_slots + num_rows, dtype=dtype)
        is_relative = conductance is not None and self_loop > 0
        rows = slots.rowptr, weight, nodes, entries, num_rows, num_slots
        _row_kernel[(num_rows,)](
            *rows, slots.reverse, slots.edge, *given, RELATIVE=is_relative, SELF_LOOP=self_loop,
            **_ROW_OPTIONS,
        )  # fmt: skip
        if is_relative:
            _degree_kernel[(num_rows,)](*rows, slots.col, SELF_LOOP=self_loop, **_ROW_OPTIONS)
        _entry_kernel[(triton.cdiv(num_slots, _BLOCK),)](
            slots.row, slots.col, weight, nodes, entries, num_rows, num_slots, BLOCK=_BLOCK
        )
        ctx.slots, ctx.self_loop, ctx.is_relative = slots, self_loop, is_relative
        ctx.save_for_backward(weight, nodes, *given)
        return entries

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        slots, (weight, nodes, *given), grad = ctx.slots, ctx.saved_tensors, grads[0].contiguous()
        num_rows, num_slots = nodes.size(1), weight.numel()
        slopes = torch.empty_like(nodes)
        rows = slots.rowptr, slots.col, weight, nodes, slopes, num_rows
        _row_back_kernel[(num_rows,)](
            *rows, grad, slots.reverse, num_slots, SELF_LOOP=ctx.self_loop, **_ROW_OPTIONS
        )
        if ctx.is_relative:
            _degree_back_kernel[(num_rows,)](*rows, **_ROW_OPTIONS)
        found = [
            torch.empty_like(each) if need else None
            for each, need in zip(given, ctx.needs_input_grad[3:], strict=True)
        ]
        _edge_back_kernel[(triton.cdiv(num_slots, _BLOCK),)](
            slots.row, slots.col, nodes, slopes, grad, slots.reverse, slots.edge, *given, *found,
            num_rows, num_slots, RELATIVE=ctx.is_relative, BLOCK=_BLOCK,
        )  # fmt: skip
        return None, None, None, *found


@triton.jit
def _read(values, places, real):
    """Read numbers of edges in float64; ones if there are none."""
    found = real.to(tl.float64)
    if values is not None:
        found = tl.load(values + places, mask=real, other=0.0).to(tl.float64)
    return found


@triton.jit
def _places(edge, slots, real):
    """Find the edges of slots in the order of the input."""
    places = slots.to(tl.int64)
    if edge is not None:
        places = tl.load(edge + slots, mask=real, other=0).to(tl.int64)
    return places


@triton.jit
def _stretch(nodes, at, mask, num_rows):
    """Compute u of nodes, by which the weights of their edges are stretched beside loops."""
    part = tl.load(nodes + at, mask=mask, other=0.0)
    whole = tl.load(nodes + num_rows + at, mask=mask, other=0.0)
    return tl.sqrt(tl.where(part > 0, whole / tl.where(part > 0, part, 1.0), 1.0))


@triton.jit
def _row_kernel(
    rowptr, weights, nodes, entries, num_rows, num_slots, reverse, edge, given, conductance,
    SELF_LOOP: tl.constexpr, RELATIVE: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    """Average the weights of both directions, and add them up: rows 0 and 1 of `nodes`."""
    row = tl.program_id(0).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    part = tl.zeros([EDGES], dtype=tl.float64)
    whole = tl.zeros([EDGES], dtype=tl.float64)
    for slot in range(start, stop, EDGES):
        slots = slot + tl.arange(0, EDGES)
        real = slots < stop
        there = _places(edge, slots, real)
        back = _places(edge, tl.load(reverse + slots, mask=real, other=0), real)
        of_there, of_back = _read(given, there, real), _read(given, back, real)
        whole += (of_there + of_back) / 2
        of_there *= _read(conductance, there, real)
        of_back *= _read(conductance, back, real)
        mean = (of_there + of_back) / 2
        part += mean
        tl.store(weights + slots, mean, mask=real)
    total = tl.sum(part, axis=0)
    tl.store(nodes + row, total)
    tl.store(nodes + num_rows + row, tl.sum(whole, axis=0))
    if not RELATIVE:
        _finish_row(nodes, entries + num_slots, row, num_rows, total + SELF_LOOP, 1.0, SELF_LOOP)


@triton.jit
def _finish_row(nodes, diagonal, row, num_rows, degree, stretch, SELF_LOOP: tl.constexpr):
    """Store d and a, rows 2 and 3 of `nodes`, and the entry on the diagonal."""
    safe = tl.where(degree > 0, degree, 1.0)
    tl.store(nodes + 2 * num_rows + row, degree)
    tl.store(nodes + 3 * num_rows + row, tl.where(degree > 0, stretch / tl.sqrt(safe), 0.0))
    entry = tl.where(degree > 0, SELF_LOOP / safe, 1.0)
    tl.store(diagonal + row, entry.to(diagonal.dtype.element_ty))


@triton.jit
def _degree_kernel(
    rowptr, weights, nodes, entries, num_rows, num_slots, col,
    SELF_LOOP: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    """Add up weights that are relative to the mean conductance of both ends."""
    row = tl.program_id(0).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    total = tl.zeros([EDGES], dtype=tl.float64)
    for slot in range(start, stop, EDGES):
        slots = slot + tl.arange(0, EDGES)
        real = slots < stop
        neighbour = tl.load(col + slots, mask=real, other=0).to(tl.int64)
        weight = tl.load(weights + slots, mask=real, other=0.0)
        total += weight * _stretch(nodes, neighbour, real, num_rows)
    stretch = _stretch(nodes, row, row >= 0, num_rows)
    degree = tl.sum(total, axis=0) * stretch + SELF_LOOP
    _finish_row(nodes, entries + num_slots, row, num_rows, degree, stretch, SELF_LOOP)


@triton.jit
def _entry_kernel(row, col, weights, nodes, entries, num_rows, num_slots, BLOCK: tl.constexpr):
    slots = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = slots < num_slots
    i = tl.load(row + slots, mask=real, other=0).to(tl.int64)
    j = tl.load(col + slots, mask=real, other=0).to(tl.int64)
    a_i, a_j = _of_ends(nodes + 3 * num_rows, i, j, real)
    entry = tl.load(weights + slots, mask=real, other=0.0) * (a_i * a_j)
    tl.store(entries + slots, entry.to(entries.dtype.element_ty), mask=real)


@triton.jit
def _both_directions(grad, reverse, slots, real):
    """Add up the gradients of S_ij and S_ji."""
    back = tl.load(reverse + slots, mask=real, other=0)
    there = tl.load(grad + slots, mask=real, other=0.0).to(tl.float64)
    return there + tl.load(grad + back, mask=real, other=0.0).to(tl.float64)


@triton.jit
def _row_back_kernel(
    rowptr, col, weights, nodes, slopes, num_rows, grad, reverse, num_slots,
    SELF_LOOP: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of log a and of d: rows 0 and 1 of `slopes`."""
    row = tl.program_id(0).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    a, degree = nodes + 3 * num_rows, tl.load(nodes + 2 * num_rows + row)
    total = tl.zeros([EDGES], dtype=tl.float64)
    for slot in range(start, stop, EDGES):
        slots = slot + tl.arange(0, EDGES)
        real = slots < stop
        neighbour = tl.load(col + slots, mask=real, other=0).to(tl.int64)
        weight = tl.load(weights + slots, mask=real, other=0.0)
        other = tl.load(a + neighbour, mask=real, other=0.0)
        total += _both_directions(grad, reverse, slots, real) * weight * other
    of_a = tl.sum(total, axis=0) * tl.load(a + row)
    of_diagonal = tl.load(grad + num_slots + row).to(tl.float64)
    safe = tl.where(degree > 0, degree, 1.0)
    of_degree = -(of_a / 2 + of_diagonal * SELF_LOOP / safe) / safe
    tl.store(slopes + row, of_a)
    tl.store(slopes + num_rows + row, tl.where(degree > 0, of_degree, 0.0))


@triton.jit
def _degree_back_kernel(rowptr, col, weights, nodes, slopes, num_rows, EDGES: tl.constexpr):
    """Compute the gradients of the sums that u is made of: rows 2 and 3 of `slopes`."""
    row = tl.program_id(0).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    of_degree = slopes + num_rows
    own = tl.load(of_degree + row)
    total = tl.zeros([EDGES], dtype=tl.float64)
    for slot in range(start, stop, EDGES):
        slots = slot + tl.arange(0, EDGES)
        real = slots < stop
        neighbour = tl.load(col + slots, mask=real, other=0).to(tl.int64)
        weight = tl.load(weights + slots, mask=real, other=0.0)
        both = tl.load(of_degree + neighbour, mask=real, other=0.0) + own
        total += both * weight * _stretch(nodes, neighbour, real, num_rows)
    stretch = _stretch(nodes, row, row >= 0, num_rows)
    of_stretch = tl.load(slopes + row) + tl.sum(total, axis=0) * stretch  # of its logarithm
    part, whole = tl.load(nodes + row), tl.load(nodes + num_rows + row)
    has_edges = part > 0
    of_part = -of_stretch / (2 * tl.where(has_edges, part, 1.0))
    of_whole = of_stretch / (2 * tl.where(has_edges, whole, 1.0))
    tl.store(slopes + 2 * num_rows + row, tl.where(has_edges, of_part, 0.0))
    tl.store(slopes + 3 * num_rows + row, tl.where(has_edges, of_whole, 0.0))


@triton.jit
def _of_ends(values, i, j, real):
    """Read numbers of both ends of edges."""
    return tl.load(values + i, mask=real, other=0.0), tl.load(values + j, mask=real, other=0.0)


@triton.jit
def _edge_back_kernel(
    row, col, nodes, slopes, grad, reverse, edge, given, conductance, of_given, of_conductance,
    num_rows, num_slots, RELATIVE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of weights and conductances of edges, as far as they are needed."""
    slots = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = slots < num_slots
    i = tl.load(row + slots, mask=real, other=0).to(tl.int64)
    j = tl.load(col + slots, mask=real, other=0).to(tl.int64)
    a_i, a_j = _of_ends(nodes + 3 * num_rows, i, j, real)
    slope_i, slope_j = _of_ends(slopes + num_rows, i, j, real)
    of_degree = slope_i + slope_j
    of_weight = _both_directions(grad, reverse, slots, real) * (a_i * a_j)
    if RELATIVE:
        degree_i, degree_j = _of_ends(nodes + 2 * num_rows, i, j, real)
        part_i, part_j = _of_ends(slopes + 2 * num_rows, i, j, real)
        of_degree *= a_i * tl.sqrt(degree_i) * (a_j * tl.sqrt(degree_j))  # u_i u_j
        of_degree += part_i + part_j
    of_weight = (of_weight + of_degree) / 2
    places = _places(edge, slots, real)
    if of_conductance is not None:
        found = of_weight * _read(given, places, real)
        tl.store(of_conductance + places, found.to(of_conductance.dtype.element_ty), mask=real)
    if of_given is not None:
        found = of_weight * _read(conductance, places, real)
        if RELATIVE:
            whole_i, whole_j = _of_ends(slopes + 3 * num_rows, i, j, real)
            found += (whole_i + whole_j) / 2
        tl.store(of_given + places, found.to(of_given.dtype.element_ty), mask=real)
