"""Column tiles: a few columns of all nodes, row after row, each row one or two cache lines."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..compiled import compiled
from ..prefetch import prefetch
from .simd import CACHE_LINE

Array = NDArray[Any]

# Threads that share a tile take blocks of so many rows in turn: they stay close to one another, and
# find in the cache what the others have read.
BLOCK = 1024

_ROWS_AHEAD = 16  # of what is not read in its own order: the signal, later the tile


def num_lanes(num_columns: Any, dtype: torch.dtype) -> int:
    """Count the columns of a tile: two cache lines, or one if there are no more columns.

    The stream of columns and values is read once a tile and term. Two lines halve it. Four would
    halve it again, but neighbours that wait in the cache then take twice the room.
    """
    line = CACHE_LINE // dtype.itemsize
    return 2 * line if num_columns > line else line


def scratch(shape: tuple[int, ...], dtype: Any) -> Array:
    """Take memory from the start of a cache line, so that rows of tiles lie in few of them.

    It comes from NumPy, which requests large pages where the system leaves that to programs.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + size].view(dtype).reshape(shape)


@compiled(nogil=True)
def pack(
    tile: Array, source: Array, node: Array, first: int, lanes: tuple[int, ...],
    share: tuple[int, int],
) -> None:  # fmt: skip
    """Copy columns from `first` on into a tile, in its order, with zeros beyond the last."""
    width, flat, columns = len(lanes), source.reshape(-1), source.shape[1]
    count = min(width, columns - first)
    for block in range(share[0] * BLOCK, node.size, share[1] * BLOCK):
        stop = min(block + BLOCK, node.size)
        for i in range(block, stop):
            _prefetch_row(flat, node[min(i + _ROWS_AHEAD, stop - 1)] * columns + first, count)
            start = node[i] * columns + first
            for lane in range(count):
                tile[i * width + lane] = flat[start + lane]
            for lane in range(count, width):
                tile[i * width + lane] = 0


@compiled(nogil=True)
def unpack(
    tile: Array, target: Array, place: Array, first: int, lanes: tuple[int, ...],
    share: tuple[int, int],
) -> None:  # fmt: skip
    """Copy a tile back, to the columns from `first` on."""
    width, flat, columns = len(lanes), target.reshape(-1), target.shape[1]
    count = min(width, columns - first)
    for block in range(share[0] * BLOCK, place.size, share[1] * BLOCK):
        stop = min(block + BLOCK, place.size)
        for node in range(block, stop):
            _prefetch_row(tile, place[min(node + _ROWS_AHEAD, stop - 1)] * width, width)
            start = place[node] * width
            for lane in range(count):
                flat[node * columns + first + lane] = tile[start + lane]


@compiled(nogil=True)
def _prefetch_row(array: Array, start: int, count: int) -> None:
    """Prefetch `count` numbers, which are no more than two cache lines."""
    prefetch(array, start)
    prefetch(array, start + count - 1)
