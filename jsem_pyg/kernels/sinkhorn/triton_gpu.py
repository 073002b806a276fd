"""Online softmax on a GPU, in Triton: no entry of the plan is stored in memory.

The first kernel goes along rows: a program owns a block of rows, and keeps their largest score,
their sum and their product with y while the columns pass by. When the rows are closed, the second
goes along columns: a program owns a block of them, computes the scores once more, and adds up
their masses over its share of the rows. Nobody writes where another does: there are no atomics, and
two runs agree to the last bit.

Products of float32 are three of TF32, of upper and lower halves of the numbers: nearly as precise,
and faster. One alone has 11 bits, and at low temperatures scores are thousands of bits. Sums over
columns and rows are float64.

``TRITON_INTERPRET=1``, set before Triton is imported, runs the kernels on the CPU, for tests.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .result import SinkhornPass, bounded, bounded_potential, check_problem, close_rows

_ROWS, _COLUMNS = 64, 64  # of a block of scores
_RANK = 32  # coordinates that are multiplied at a time
_CHANNELS = 128  # channels that a program holds; where there are more, others compute scores again
_SMALLEST = 16  # of a product of blocks

# Enough for the cores of any GPU; where there are fewer blocks of columns, rows are shared out.
_PROGRAMS = 512


@torch.no_grad()
def sinkhorn_pass(u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, y: Tensor) -> SinkhornPass:
    """Compute :func:`.torch_rows.sinkhorn_pass`, without leading dimensions."""
    check_problem(u, v, g, log2_p, y)
    (num_rows, rank), (num_columns, channels) = u.shape, y.shape
    u, v = bounded(u).contiguous(), bounded(v).contiguous()
    g, y = bounded_potential(g).contiguous(), y.contiguous()
    top, z = u.new_zeros(num_rows), u.new_zeros(num_rows, dtype=torch.float64)
    product = u.new_zeros(num_rows, channels)
    sizes = {"num_rows": num_rows, "num_columns": num_columns, "rank": rank}
    blocks: dict[str, int | str] = {"num_warps": 4, "num_stages": 2}
    blocks |= {"ROWS": _ROWS, "COLUMNS": _COLUMNS, "RANK": _block(rank, _RANK)}
    blocks |= {"PRECISION": "ieee" if u.dtype == torch.float64 else "tf32x3"}
    row_blocks, column_blocks = triton.cdiv(num_rows, _ROWS), triton.cdiv(num_columns, _COLUMNS)
    if row_blocks * column_blocks:
        width = _block(channels, _CHANNELS)
        _row_kernel[(row_blocks, max(1, triton.cdiv(channels, width)))](
            u, v, g, y, top, z, product, channels=channels, CHANNELS=width, **sizes, **blocks
        )
    rows = close_rows(top.double(), z, log2_p.double())
    scale = rows.scale.to(u)
    splits = min(triton.cdiv(_PROGRAMS, max(1, column_blocks)), row_blocks)
    masses = u.new_zeros(splits, num_columns, dtype=torch.float64)
    if row_blocks * column_blocks:
        _column_kernel[(column_blocks, splits)](u, v, g, top, scale, masses, **sizes, **blocks)
    average = product * scale[:, None]
    return SinkhornPass(rows.f.to(u), masses.sum(0), average, rows.peak.to(u))


def _block(size: int, largest: int) -> int:
    return min(max(triton.next_power_of_2(size), _SMALLEST), largest)


@triton.jit
def _scores(
    u, v, g, rows, columns, num_rows, num_columns, rank,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, RANK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute a block of scores; minus infinity beyond the last column."""
    total = tl.zeros([ROWS, COLUMNS], dtype=u.dtype.element_ty)
    for first in range(0, rank, RANK):
        k = first + tl.arange(0, RANK)  # [RANK]
        of_rows = (rows < num_rows)[:, None] & (k < rank)[None, :]
        of_columns = (columns < num_columns)[None, :] & (k < rank)[:, None]
        a = tl.load(u + rows[:, None] * rank + k[None, :], mask=of_rows, other=0.0)
        b = tl.load(v + columns[None, :] * rank + k[:, None], mask=of_columns, other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION, out_dtype=total.dtype)
    potential = tl.load(g + columns, mask=columns < num_columns, other=float("-inf"))
    return total + potential[None, :]


@triton.jit
def _row_kernel(
    u, v, g, y, top, z, product, num_rows, num_columns, rank, channels,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, RANK: tl.constexpr, CHANNELS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)  # [ROWS]
    lanes = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)  # [CHANNELS]
    real = u.dtype.element_ty
    highest = tl.full([ROWS], float("-inf"), dtype=real)
    total = tl.zeros([ROWS], dtype=tl.float64)
    average = tl.zeros([ROWS, CHANNELS], dtype=real)
    for start in range(0, num_columns, COLUMNS):
        columns = (start + tl.arange(0, COLUMNS)).to(tl.int64)  # [COLUMNS]
        score = _scores(
            u, v, g, rows, columns, num_rows, num_columns, rank, ROWS, COLUMNS, RANK, PRECISION
        )  # fmt: skip
        higher = tl.maximum(highest, tl.max(score, axis=1))
        # Rows that have met no column with mass are relative to zero: all they add is zero.
        reference = tl.where(higher == float("-inf"), 0.0, higher)
        share = tl.exp2(score - reference[:, None])  # [ROWS, COLUMNS]
        fade = tl.exp2(highest - reference)  # [ROWS]
        total = total * fade.to(tl.float64) + tl.sum(share, axis=1).to(tl.float64)
        inside = (columns < num_columns)[:, None] & (lanes < channels)[None, :]
        signal = tl.load(y + columns[:, None] * channels + lanes[None, :], mask=inside, other=0.0)
        average = tl.dot(
            share, signal, average * fade[:, None], input_precision=PRECISION, out_dtype=real
        )
        highest = higher
    if tl.program_id(1) == 0:
        known = tl.where(highest == float("-inf"), 0.0, highest)
        tl.store(top + rows, known, mask=rows < num_rows)
        tl.store(z + rows, total, mask=rows < num_rows)
    inside = (rows < num_rows)[:, None] & (lanes < channels)[None, :]
    tl.store(product + rows[:, None] * channels + lanes[None, :], average, mask=inside)


@triton.jit
def _column_kernel(
    u, v, g, top, scale, masses, num_rows, num_columns, rank,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, RANK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    columns = (tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)).to(tl.int64)  # [COLUMNS]
    total = tl.zeros([COLUMNS], dtype=tl.float64)
    for start in range(tl.program_id(1) * ROWS, num_rows, tl.num_programs(1) * ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)  # [ROWS]
        score = _scores(
            u, v, g, rows, columns, num_rows, num_columns, rank, ROWS, COLUMNS, RANK, PRECISION
        )  # fmt: skip
        weight = tl.load(scale + rows, mask=rows < num_rows, other=0.0)
        reference = tl.load(top + rows, mask=rows < num_rows, other=0.0)
        # No real score is above its row's largest; those beyond the last row are not real.
        share = tl.exp2(tl.minimum(score - reference[:, None], 0.0))
        total += tl.sum(share * weight[:, None], axis=0).to(tl.float64)
    place = masses + tl.program_id(1).to(tl.int64) * num_columns + columns
    tl.store(place, total, mask=columns < num_columns)
