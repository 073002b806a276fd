"""Small ranks on the CPU: everything that a tile of rows needs while its numbers are in the cache.

A tile has a few rows, and looks at the columns in blocks. A block's scores are computed into the
first-level cache; if they matter, their exponentials go to the tile's shares, a table of its
rows and all columns in the second-level cache, and are multiplied with y. The exponent that a row's
shares are relative to is a whole number of bits, and rises when a score goes far above it: what was
summed before is scaled by a power of two then; that is exact. When a tile's rows are closed, the
column masses follow from its shares; if these outgrow the cache, they are not kept, and it is
quicker to compute them again.

*Skipping.* Where all scores of a row in a block are far below what the row has already, the shares
are zero without an exponential; if this is so for all rows, the block is done.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import compiled
from .result import EMPTY, LARGEST, LARGEST_MASS
from .vectors import CHANNELS, ROWS, STEP, add_columns, average_rows, exp_row, score_rows

Array = NDArray[Any]

BLOCK = 256  # columns: 8 kB of scores, and of v and y a kilobyte for each rank and channel

# Bits below a row's largest score that are skipped. The row would not notice from 24 or 53 on; but
# all the scores of a column may be so low, and it could not be weighed without them.
_SKIPPED, _SKIPPED_DOUBLE = 64.0, 200.0

# Bits that a score may be above the exponent of its row before that rises.
_HEADROOM = 32.0


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
    """Copy arrays into tiles and blocks; `result.bounded` bounds the coordinates."""
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
    """Compute potential, scale and peak of one row, as `result.close_rows` does."""
    if z == 0 or log2_p == -np.inf:
        return -np.inf, 0.0, 0.0
    total = reference + np.log2(z)
    mass = min(log2_p + (1 - damping) * total, LARGEST_MASS)
    return mass - total, 2.0**mass / z, 2.0 ** (largest - reference) / z


@compiled(nogil=True)
def run_tiles(
    u: Array, v: Array, g: Array, log2_p: Array, y: Array, width: Array, damping: float,
    first: int, last: int, shares: Array, f: Array, peak: Array, average: Array,
    column_mass: Array, group: int, is_kept: bool, lanes: Any,
) -> None:  # fmt: skip
    """Compute tiles from `first` up to `last` of what is :class:`Packed`.

    `shares` is memory to work in: [group * blocks * ROWS * BLOCK] for so many tiles at a time as
    take turns at a block, if shares are kept until the columns are weighed; else of one block.
    Written are `f` and `peak` [tiles * ROWS] and, if there were zeros, `average`
    [tiles * channels * ROWS]; `column_mass` [blocks * BLOCK] is added to. All of these are
    float64. `lanes` is a tuple as long as a vector.
    """
    num_blocks, channels, _ = y.shape
    rank = u.shape[1]
    per_block = ROWS * BLOCK if is_kept else 0  # numbers in shares
    scores, top = np.empty(ROWS * BLOCK, v.dtype), np.empty(ROWS, v.dtype)
    reference, largest, z = np.empty((3, group, ROWS))
    block_reference = np.empty((group, num_blocks, ROWS))
    is_used = np.empty((group, num_blocks), np.bool_)
    for start in range(first, last, group):
        stop = min(start + group, last)
        reference[:], largest[:], z[:] = EMPTY, EMPTY, 0.0
        for block in range(num_blocks):
            for tile in range(start, stop):
                t = tile - start
                at = (t * num_blocks + block) * per_block
                score_rows(
                    scores, top, u, v, g, tile * rank * ROWS, block * rank * BLOCK, block * BLOCK,
                    rank, width[block], BLOCK, lanes,
                )  # fmt: skip
                is_used[t, block] = _open_shares(
                    top, scores, reference, largest, z, t, shares, at, average,
                    tile * channels * ROWS, channels, width[block], lanes,
                )  # fmt: skip
                for r in range(ROWS):
                    block_reference[t, block, r] = reference[t, r]
                if is_used[t, block]:
                    for c in range(0, channels, CHANNELS):
                        average_rows(
                            shares, y, average, at, (block * channels + c) * BLOCK,
                            (tile * channels + c) * ROWS, width[block], BLOCK, lanes,
                        )  # fmt: skip
        for tile in range(start, stop):
            t = tile - start
            for r in range(ROWS):
                row = tile * ROWS + r
                f[row], z[t, r], peak[row] = close_row(
                    reference[t, r], z[t, r], largest[t, r], log2_p[tile, r], damping
                )
                for c in range(channels):
                    average[(tile * channels + c) * ROWS + r] *= z[t, r]
        if is_kept:
            _weigh_columns(
                shares, is_used, block_reference, reference, z, column_mass, stop - start, width,
                lanes,
            )  # fmt: skip
        else:
            _score_again(
                u, v, g, scores, top, shares, is_used, reference, largest, z, column_mass, start,
                stop, width, lanes,
            )  # fmt: skip


@compiled(nogil=True)
def _open_shares(
    top: Array, scores: Array, reference: Array, largest: Array, z: Array, t: int, shares: Array,
    at: int, average: Array, average_at: int, channels: int, width: int, lanes: Any,
) -> bool:  # fmt: skip
    """Turn a block's scores into shares, row by row; True if any row needs them."""
    skipped = _SKIPPED if len(lanes) == 16 else _SKIPPED_DOUBLE
    is_used = False
    for r in range(ROWS):
        largest[t, r] = max(largest[t, r], top[r])
        is_used |= top[r] >= largest[t, r] - skipped and top[r] > EMPTY / 2
    if not is_used:
        return False
    for r in range(ROWS):
        row = at + r * BLOCK
        if top[r] < largest[t, r] - skipped or top[r] <= EMPTY / 2:
            shares[row : row + width] = 0
            continue
        if top[r] > reference[t, r] + _HEADROOM:
            exponent = np.rint(top[r])
            factor = 2.0 ** (reference[t, r] - exponent)
            z[t, r] *= factor
            for c in range(channels):
                average[average_at + c * ROWS + r] *= factor
            reference[t, r] = exponent
        z[t, r] += exp_row(shares, scores, row, r * BLOCK, reference[t, r], width, lanes)
    return True


@compiled(nogil=True)
def _weigh_columns(
    shares: Array, is_used: Array, block_reference: Array, reference: Array, scale: Array,
    column_mass: Array, tiles: int, width: Array, lanes: Any,
) -> None:  # fmt: skip
    """Add the masses of the columns of a few tiles, whose rows are closed."""
    num_blocks = is_used.shape[1]
    weight = np.empty(ROWS, shares.dtype)
    for t in range(tiles):
        for block in range(num_blocks):
            if not is_used[t, block]:
                continue
            for r in range(ROWS):
                weight[r] = scale[t, r]
                if block_reference[t, block, r] != reference[t, r]:
                    weight[r] *= 2.0 ** (block_reference[t, block, r] - reference[t, r])
            add_columns(
                shares, weight, column_mass, (t * num_blocks + block) * ROWS * BLOCK,
                block * BLOCK, width[block], BLOCK, lanes,
            )  # fmt: skip


@compiled(nogil=True)
def _score_again(
    u: Array, v: Array, g: Array, scores: Array, top: Array, shares: Array, is_used: Array,
    reference: Array, largest: Array, scale: Array, column_mass: Array, start: int, stop: int,
    width: Array, lanes: Any,
) -> None:  # fmt: skip
    """Add the masses of the columns of tiles whose rows are closed, and whose shares are gone."""
    rank = u.shape[1]
    weight, unused, nothing = np.empty(ROWS, v.dtype), np.zeros_like(scale), np.empty(0)
    for block in range(width.size):
        for tile in range(start, stop):
            t = tile - start
            if not is_used[t, block]:
                continue
            score_rows(
                scores, top, u, v, g, tile * rank * ROWS, block * rank * BLOCK, block * BLOCK,
                rank, width[block], BLOCK, lanes,
            )  # fmt: skip
            if _open_shares(
                top, scores, reference, largest, unused, t, shares, 0, nothing, 0, 0, width[block],
                lanes,
            ):  # fmt: skip
                for r in range(ROWS):
                    weight[r] = scale[t, r]
                add_columns(
                    shares, weight, column_mass, 0, block * BLOCK, width[block], BLOCK, lanes
                )
