"""Small ranks on the CPU: everything that a tile of rows needs while its numbers are in the cache.

A tile has a few rows, and looks at the columns in blocks. A block's scores are computed into the
first-level cache; if they matter, their exponentials go to the tile's shares, a table of its
rows and all columns in the second-level cache, and are multiplied with y. The exponent that a row's
shares are relative to is a whole number of bits, and rises when a score goes far above it: what was
summed before is scaled by a power of two then; that is exact. When a tile's rows are closed, the
column masses follow from its shares.

*Skipping.* Where all scores of a row in a block are far below what the row has already, the shares
are zero without an exponential; if this is so for all rows, the block is done.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import compiled
from .result import EMPTY, LARGEST
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
def run_tiles(
    u: Array, v: Array, g: Array, log2_p: Array, y: Array, width: Array, first: int, last: int,
    shares: Array, f: Array, peak: Array, average: Array, column_mass: Array, lanes: Any,
) -> None:  # fmt: skip
    """Compute tiles from `first` up to `last` of what is :class:`Packed`.

    `shares` [blocks * ROWS * BLOCK] is memory to work in. Written are `f` and `peak` [tiles * ROWS]
    and, if there were zeros, `average` [tiles * channels * ROWS]; `column_mass` [blocks * BLOCK] is
    added to. All of these are float64. `lanes` is a tuple as long as a vector.
    """
    num_blocks, channels, _ = y.shape
    rank = u.shape[1]
    scores, top = np.empty(ROWS * BLOCK, v.dtype), np.empty(ROWS, v.dtype)
    reference, largest, z = np.empty((3, ROWS))
    block_reference, weight = np.empty((num_blocks, ROWS)), np.empty(ROWS, v.dtype)
    is_used = np.empty(num_blocks, np.bool_)
    for tile in range(first, last):
        at_average = tile * channels * ROWS
        reference[:], largest[:], z[:] = EMPTY, EMPTY, 0.0
        for block in range(num_blocks):
            at = block * ROWS * BLOCK
            score_rows(
                scores, top, u, v, g, tile * rank * ROWS, block * rank * BLOCK, block * BLOCK,
                rank, width[block], BLOCK, lanes,
            )  # fmt: skip
            is_used[block] = _open_shares(
                top, scores, reference, largest, z, shares, at, average, at_average, channels,
                width[block], lanes,
            )  # fmt: skip
            block_reference[block] = reference
            if is_used[block]:
                for c in range(0, channels, CHANNELS):
                    average_rows(
                        shares, y, average, at, (block * channels + c) * BLOCK,
                        at_average + c * ROWS, width[block], BLOCK, lanes,
                    )  # fmt: skip
        for r in range(ROWS):
            row = tile * ROWS + r
            if z[r] == 0 or log2_p[tile, r] == -np.inf:
                f[row], peak[row], z[r] = -np.inf, 0.0, 0.0
            else:
                f[row] = log2_p[tile, r] - reference[r] - np.log2(z[r])
                peak[row] = 2.0 ** (largest[r] - reference[r]) / z[r]
                z[r] = 2.0 ** log2_p[tile, r] / z[r]
            for c in range(channels):
                average[at_average + c * ROWS + r] *= z[r]
        for block in range(num_blocks):
            if is_used[block]:
                for r in range(ROWS):
                    weight[r] = z[r] * 2.0 ** (block_reference[block, r] - reference[r])
                add_columns(
                    shares, weight, column_mass, block * ROWS * BLOCK, block * BLOCK, width[block],
                    BLOCK, lanes,
                )  # fmt: skip


@compiled(nogil=True)
def _open_shares(
    top: Array, scores: Array, reference: Array, largest: Array, z: Array, shares: Array, at: int,
    average: Array, at_average: int, channels: int, width: int, lanes: Any,
) -> bool:  # fmt: skip
    """Turn a block's scores into shares, row by row; True if any row needs them."""
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
                average[at_average + c * ROWS + r] *= factor
            reference[r] = exponent
        z[r] += exp_row(shares, scores, row, r * BLOCK, reference[r], width, lanes)
    return True
