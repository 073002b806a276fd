"""Tiles in the cache on the CPU, with exponentials in vector registers.

A tile has a few rows, and looks at the columns in blocks. A block's scores are computed into the
first-level cache; where they matter, their exponentials go to the tile's shares, a table of its
rows and all columns in the second-level cache, and are multiplied with y. The exponent that a row's
shares are relative to is a whole number of bits, and rises when a score goes far above it: what was
summed before is scaled by a power of two then, which is exact. When a tile's rows are closed, the
column masses follow from its shares.

*Skipping.* Where all scores of a row in a block are far below what the row has already, the shares
are zero without an exponential; where this is so for all rows, the block is done.

*Threads.* Rows are cut into a number of parts that does not depend on the threads, and each part
adds up its column masses by itself: so the result is the same to the last bit whatever the number
of threads.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..compiled import compiled
from ..threads import map_ranges
from .result import EMPTY, LARGEST, LARGEST_MASS, SinkhornPass, check_problem
from .vectors import CHANNELS, ROWS, STEP, add_columns, average_rows, exp_row, score_rows

Array = NDArray[Any]

BLOCK = 256  # columns: 8 kB of scores, and of v and y a kilobyte for each rank and channel

# Bits below a row's largest score that are skipped. The row would not notice from 24 or 53 on; but
# a column that no row likes may live of such scores, and could not be weighed without its mass.
_SKIPPED, _SKIPPED_DOUBLE = 64.0, 200.0

# Bits that a score may be above the exponent of its row before that rises.
_HEADROOM = 32.0

_VECTOR = 64  # bytes: one register of AVX-512, or several smaller ones

# Entries. Less is over before a second thread has begun, in half a millisecond: a single part.
_MUCH_WORK = 1 << 20

_PARTS = 16  # of the rows


@torch.no_grad()
def sinkhorn_pass(
    u: Tensor,
    v: Tensor,
    g: Tensor,
    log2_p: Tensor,
    y: Tensor,
    damping: float = 1.0,
) -> SinkhornPass:
    """See :func:`.reference.sinkhorn_pass`, without leading dimensions."""
    check_problem(u, v, g, log2_p, y)
    lanes = (0,) * (_VECTOR // u.itemsize)
    arrays = (each.detach().contiguous().numpy() for each in (u, v, g, log2_p, y))
    packed = Packed(*pack(*arrays, lanes))
    (tiles, _, _), (blocks, channels, _) = packed.u.shape, packed.y.shape
    f, peak = np.empty((2, tiles * ROWS))
    average = np.zeros((tiles, channels, ROWS))
    parts = min(tiles, _PARTS if u.size(0) * v.size(0) >= _MUCH_WORK else 1)
    column_mass = np.zeros((parts, blocks * BLOCK))

    def work(first: int, last: int) -> None:
        shares = np.empty(blocks * ROWS * BLOCK, packed.v.dtype)
        for part in range(first, last):
            run_tiles(
                *packed, float(damping), part * tiles // parts, (part + 1) * tiles // parts,
                shares, f, peak, average.reshape(-1), column_mass[part], lanes,
            )  # fmt: skip

    map_ranges(work, range(parts + 1), min(torch.get_num_threads(), parts))
    columns = torch.from_numpy(column_mass.sum(0)[: v.size(0)])
    columns.masked_fill_(g == -torch.inf, 0)  # not quite, where other columns share the block
    by_rows = average.transpose(0, 2, 1).reshape(tiles * ROWS, channels)[: u.size(0), : y.size(1)]
    return SinkhornPass(
        torch.from_numpy(f[: u.size(0)]).to(u),
        columns,
        torch.from_numpy(by_rows).to(u),
        torch.from_numpy(peak[: u.size(0)]).to(u),
    )


class Packed(NamedTuple):
    """The arrays of a pass in tiles and blocks, as the kernel reads them."""

    u: Array  # [tiles, R, ROWS], zeros beyond the last row
    v: Array  # [strips, R, STEP vectors], as many strips as fill the blocks; zeros at the end
    g: Array  # [blocks, BLOCK], EMPTY where there is no mass
    log2_p: Array  # [tiles, ROWS] float64, -inf where there is no mass
    y: Array  # [blocks, channels, BLOCK]; channels are rounded up, with zeros
    width: Array  # [blocks] columns that are used, rounded up to whole vectors


@compiled(nogil=True)
def pack(
    u: Array, v: Array, g: Array, log2_p: Array, y: Array, lanes: Any
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Copies in tiles and blocks; of coordinates within the bounds of `result.bounded`."""
    (num_rows, rank), (num_columns, channels) = u.shape, y.shape
    tiles, blocks = -(-num_rows // ROWS), -(-num_columns // BLOCK)
    strip = STEP * len(lanes)
    tile_u = np.zeros((tiles, rank, ROWS), u.dtype)
    tile_p = np.full((tiles, ROWS), -np.inf)
    for i in range(num_rows):
        tile, r = i // ROWS, i % ROWS
        tile_p[tile, r] = log2_p[i]
        for k in range(rank):
            tile_u[tile, k, r] = min(max(u[i, k], -LARGEST), LARGEST)
    strip_v = np.zeros((blocks * BLOCK // strip, rank, strip), u.dtype)
    block_g = np.full((blocks, BLOCK), EMPTY).astype(u.dtype)
    block_y = np.zeros((blocks, -(-channels // CHANNELS) * CHANNELS, BLOCK), u.dtype)
    for j in range(num_columns):
        block, c = j // BLOCK, j % BLOCK
        block_g[block, c] = min(max(g[j], EMPTY), -EMPTY)
        for k in range(rank):
            strip_v[j // strip, k, j % strip] = min(max(v[j, k], -LARGEST), LARGEST)
        for k in range(channels):
            block_y[block, k, c] = y[j, k]
    width = np.full(blocks, BLOCK)
    if blocks:
        width[-1] = -(-(num_columns - (blocks - 1) * BLOCK) // strip) * strip
    return tile_u, strip_v, block_g, tile_p, block_y, width


@compiled(nogil=True)
def close_row(
    reference: float, z: float, largest: float, log2_p: float, damping: float
) -> tuple[float, float, float]:
    """What `result.close_rows` computes, of one row: its potential, scale and peak."""
    if z == 0 or log2_p == -np.inf:
        return -np.inf, 0.0, 0.0
    total = reference + np.log2(z)
    mass = min(log2_p + (1 - damping) * total, LARGEST_MASS)
    return mass - total, 2.0**mass / z, 2.0 ** (largest - reference) / z


@compiled(nogil=True)
def run_tiles(
    u: Array, v: Array, g: Array, log2_p: Array, y: Array, width: Array, damping: float,
    first: int, last: int, shares: Array, f: Array, peak: Array, average: Array,
    column_mass: Array, lanes: Any,
) -> None:  # fmt: skip
    """Tiles from `first` up to `last` of what is :class:`Packed`.

    `shares` [blocks * ROWS * BLOCK] is memory to work in. Written are `f` and `peak` [tiles * ROWS]
    and, where there were zeros, `average` [tiles * channels * ROWS]; `column_mass` [blocks * BLOCK]
    is added to. All of these are float64. `lanes` is a tuple as long as a vector.
    """
    num_blocks, channels, _ = y.shape
    rank = u.shape[1]
    scores, top = np.empty(ROWS * BLOCK, v.dtype), np.empty(ROWS, v.dtype)
    reference, largest, z = np.empty((3, ROWS))
    block_reference, weight = np.empty((num_blocks, ROWS)), np.empty(ROWS, v.dtype)
    is_used = np.empty(num_blocks, np.bool_)
    for tile in range(first, last):
        reference[:], largest[:], z[:] = EMPTY, EMPTY, 0.0
        for block in range(num_blocks):
            at = block * ROWS * BLOCK
            score_rows(
                scores, top, u, v, g, tile * rank * ROWS, block * rank * BLOCK, block * BLOCK,
                rank, width[block], BLOCK, lanes,
            )  # fmt: skip
            is_used[block] = _open_shares(
                top, scores, reference, largest, z, shares, at, average, tile * channels * ROWS,
                channels, width[block], lanes,
            )  # fmt: skip
            block_reference[block] = reference
            if is_used[block]:
                for c in range(0, channels, CHANNELS):
                    average_rows(
                        shares, y, average, at, (block * channels + c) * BLOCK,
                        (tile * channels + c) * ROWS, width[block], BLOCK, lanes,
                    )  # fmt: skip
        for r in range(ROWS):
            row = tile * ROWS + r
            f[row], z[r], peak[row] = close_row(
                reference[r], z[r], largest[r], log2_p[tile, r], damping
            )
            for c in range(channels):
                average[(tile * channels + c) * ROWS + r] *= z[r]
        for block in range(num_blocks):
            if not is_used[block]:
                continue
            for r in range(ROWS):
                weight[r] = z[r]
                if block_reference[block, r] != reference[r]:
                    weight[r] *= 2.0 ** (block_reference[block, r] - reference[r])
            add_columns(
                shares, weight, column_mass, block * ROWS * BLOCK, block * BLOCK, width[block],
                BLOCK, lanes,
            )  # fmt: skip


@compiled(nogil=True)
def _open_shares(
    top: Array, scores: Array, reference: Array, largest: Array, z: Array, shares: Array, at: int,
    average: Array, average_at: int, channels: int, width: int, lanes: Any,
) -> bool:  # fmt: skip
    """Turn a block's scores into shares, row by row, and say whether any row needs them."""
    skipped = _SKIPPED if len(lanes) == 16 else _SKIPPED_DOUBLE
    is_used = False
    for r in range(ROWS):
        largest[r] = max(largest[r], top[r])
        is_used |= top[r] >= largest[r] - skipped and top[r] > EMPTY / 2
    if not is_used:
        return False
    for r in range(ROWS):
        row = at + r * BLOCK
        if top[r] < largest[r] - skipped or top[r] <= EMPTY / 2:
            shares[row : row + width] = 0
            continue
        if top[r] > reference[r] + _HEADROOM:
            exponent = np.rint(top[r])
            factor = 2.0 ** (reference[r] - exponent)
            z[r] *= factor
            for c in range(channels):
                average[average_at + c * ROWS + r] *= factor
            reference[r] = exponent
        z[r] += exp_row(shares, scores, row, r * BLOCK, reference[r], width, lanes)
    return True
