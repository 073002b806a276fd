"""Steps of the recurrence and of its adjoint in Triton: a program makes some columns of a row.

It gathers the rows of its neighbours, several at a time.
"""

import triton
import triton.language as tl


@triton.jit
def step_kernel(
    order, rowptr, col, values, term, before, target, out, coefficient,
    num_scales, num_rows, num_columns, num_slots, IS_FIRST: tl.constexpr,
    PER_CHANNEL: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Make T_k and add c_k T_k to every scale; `coefficient` points to c_(k-1)."""
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
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
    finish_step(
        total, before, target, out, coefficient, here, inside, lanes,
        num_scales, num_rows, num_columns, IS_FIRST, PER_CHANNEL,
    )  # fmt: skip


@triton.jit
def step_back_kernel(
    order, rowptr, col, values, b, b_next, t, t_next, t_out, grad, grad_values, coefficient,
    slopes, num_scales, num_rows, num_columns, num_slots, IS_LAST: tl.constexpr,
    PER_CHANNEL: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Take the step from k + 1 to k; see :mod:`.triton_gpu`."""
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    twice = 1.0 if IS_LAST else 2.0  # of S B_1, and of the gradient that B_1 and T_0 make
    real_type = grad_values.dtype.element_ty
    grad_values += tl.program_id(1).to(tl.int64) * num_slots
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    inside = lanes < num_columns
    here = row * num_columns + lanes
    own_b = tl.load(b + here, mask=inside, other=0.0).to(real_type)  # [BLOCK]
    own_t = tl.load(t + here, mask=inside, other=0.0).to(real_type)
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
        product = twice * tl.sum(own_b[None, :] * other_t, axis=1)  # [EDGES]
        product += tl.load(grad_values + edges, mask=real, other=0.0)
        tl.store(grad_values + edges, product, mask=real)
    finish_step_back(
        twice * total_b, total_t, own_t, b_next, t_next, t_out, grad, coefficient, slopes,
        row, here, inside, lanes, num_scales, num_rows, num_columns, IS_LAST, PER_CHANNEL,
    )  # fmt: skip


@triton.jit
def begin_back_kernel(
    rowptr, b, b_next, t, grad, grad_values, coefficient, slopes,
    num_scales, num_rows, num_columns, num_slots,
    PER_CHANNEL: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Make B_K = c_K G of a row, and zeros for B_(K+1) and the gradients of its edges."""
    row = tl.program_id(0).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    grad_values += tl.program_id(1).to(tl.int64) * num_slots
    for edge in range(start, stop, EDGES):
        edges = edge + tl.arange(0, EDGES)  # [EDGES]
        tl.store(grad_values + edges, 0.0, mask=edges < stop)
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    inside = lanes < num_columns
    here = row * num_columns + lanes
    total = tl.zeros([BLOCK], dtype=grad_values.dtype.element_ty)
    tl.store(b_next + here, total.to(b_next.dtype.element_ty), mask=inside)
    own_t = tl.load(t + here, mask=inside, other=0.0).to(total.dtype)
    total = _add_scales(
        total, own_t, grad, coefficient, slopes, row, here, inside, lanes,
        num_scales, num_rows, num_columns, PER_CHANNEL,
    )  # fmt: skip
    tl.store(b + here, total.to(b.dtype.element_ty), mask=inside)


@triton.jit
def _weight(coefficient, scale, lanes, num_columns, PER_CHANNEL: tl.constexpr):
    """Read a coefficient of a scale: for every column, or one for all."""
    if PER_CHANNEL:
        place = coefficient + scale * num_columns + lanes
        weight = tl.load(place, mask=lanes < num_columns, other=0.0)
    else:
        weight = tl.load(coefficient + scale)
    return weight


@triton.jit
def finish_step(
    total, before, target, out, coefficient, here, inside, lanes,
    num_scales, num_rows, num_columns, IS_FIRST: tl.constexpr, PER_CHANNEL: tl.constexpr,
):  # fmt: skip
    """Make T_k of the product S T_(k-1), and add c_k T_k to every scale."""
    earlier = tl.load(before + here, mask=inside, other=0.0).to(total.dtype)  # T_0 at first
    if not IS_FIRST:
        total = 2 * total - earlier
    tl.store(target + here, total.to(target.dtype.element_ty), mask=inside)
    following = coefficient + num_scales * (num_columns if PER_CHANNEL else 1)
    size = tl.cast(num_rows, tl.int64) * num_columns  # of a scale
    for scale in range(num_scales):
        at = out + scale * size + here
        if IS_FIRST:
            weight = _weight(coefficient, scale, lanes, num_columns, PER_CHANNEL)
            sofar = weight * earlier
        else:
            sofar = tl.load(at, mask=inside, other=0.0)
        weight = _weight(following, scale, lanes, num_columns, PER_CHANNEL)
        tl.store(at, sofar + weight * total, mask=inside)


@triton.jit
def finish_step_back(
    total_b, total_t, own_t, b_next, t_next, t_out, grad, coefficient, slopes,
    row, here, inside, lanes, num_scales, num_rows, num_columns,
    IS_LAST: tl.constexpr, PER_CHANNEL: tl.constexpr,
):  # fmt: skip
    """Make B_k and T_(k-1) of the products."""
    total_b -= tl.load(b_next + here, mask=inside, other=0.0).to(total_b.dtype)
    total_b = _add_scales(
        total_b, own_t, grad, coefficient, slopes, row, here, inside, lanes,
        num_scales, num_rows, num_columns, PER_CHANNEL,
    )  # fmt: skip
    tl.store(b_next + here, total_b.to(b_next.dtype.element_ty), mask=inside)
    if not IS_LAST:
        last_t = tl.load(t_next + here, mask=inside, other=0.0).to(total_t.dtype)
        total_t = 2 * total_t - last_t
        tl.store(t_out + here, total_t.to(t_out.dtype.element_ty), mask=inside)


@triton.jit
def _add_scales(
    total, own_t, grad, coefficient, slopes, row, here, inside, lanes,
    num_scales, num_rows, num_columns, PER_CHANNEL: tl.constexpr,
):  # fmt: skip
    """Add c_k G of all scales; store <G, T_k> of a row, where `slopes` are asked for."""
    size = tl.cast(num_rows, tl.int64) * num_columns  # of a scale
    for scale in range(num_scales):
        weight = _weight(coefficient, scale, lanes, num_columns, PER_CHANNEL)
        own_grad = tl.load(grad + scale * size + here, mask=inside, other=0.0).to(total.dtype)
        total += weight * own_grad
        if slopes is not None:
            block = scale * tl.num_programs(1) + tl.program_id(1)
            place = block.to(tl.int64) * num_rows + row
            tl.store(slopes + place, tl.sum(own_grad * own_t, axis=-1), mask=row < num_rows)
    return total
