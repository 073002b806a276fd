"""The compiled loops over column tiles: packing, the series, its adjoint (:mod:`.adjoint`).

A column tile holds a few columns of all nodes, row after row, each row one or two cache lines.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..compiled import compiled, prefetch
from .simd import (
    CACHE_LINE,
    add_row,
    adjoint_row,
    clear_row,
    dot_row,
    project_row,
    step_row,
)

Array = NDArray[Any]

MOST_AHEAD = 512  # by how many edges a loop may look ahead, beyond the last one too

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
    size = math.prod(shape) * np.dtype(dtype).itemsize
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


@compiled(nogil=True)
def forward(
    matrix: tuple[Array, ...],
    weight: Array,
    terms: tuple[Array, Array],
    result: Array,
    steps: tuple[int, int],
    ahead: tuple[int, ...],
    lanes: tuple[int, ...],
    share: tuple[int, int],
) -> None:
    """Sum Y = sum over k of c_k T_k(S) X on a tile.

    It makes the terms from steps[0] to steps[1] - 1 and adds them to the result.

    T_k lies in terms[k % 2], where T_(k-2) was; T_0 is there already. The result takes three terms
    at a time: when a row of T_k is made, those of T_(k-1) and T_(k-2) are at hand, and what this
    waits for is memory.

    Args:
        matrix: rowptr, col, middle and values.
        weight: [K + 1, S, lanes] the coefficients.
        terms: two tiles, [N * lanes].
        result: [S, N * lanes], overwritten.
        steps: a range of terms.
        ahead: (how many edges ahead neighbours are prefetched,), or () for none.
        lanes: as many zeros as the tile has columns.
        share: (index of this thread, number of threads that share the rows).
    """
    rowptr, col, _, val = matrix
    num_nodes, last = rowptr.size - 1, weight.shape[0] - 1
    scales = weight.shape[1]  # rows of the weights from a term to the next
    for k in range(steps[0], steps[1]):
        term, before = terms[k % 2], terms[(k + 1) % 2]
        waiting = k % 3  # terms that the result has not taken yet
        alpha = 1.0 if k == 1 else 2.0  # T_1 = S T_0, then T_k = 2 S T_(k-1) - T_(k-2)
        takes = waiting == 2 or k == last
        for block in range(share[0] * BLOCK, num_nodes, share[1] * BLOCK):
            for i in range(block, min(block + BLOCK, num_nodes)):
                start, stop = rowptr[i], rowptr[i + 1]
                if takes:
                    for s in range(scales):
                        out, row_k = s * num_nodes + i, k * scales + s
                        if k < 3:
                            clear_row(result, out, lanes)
                        if waiting == 2:
                            add_row(result, weight, term, out, row_k - 2 * scales, i, lanes)
                        if waiting > 0:
                            add_row(result, weight, before, out, row_k - scales, i, lanes)
                if k == 1:
                    clear_row(term, i, lanes)
                if k > 0:
                    step_row(before, term, col, val, start, stop, i, alpha, ahead, lanes)
                if takes:
                    for s in range(scales):
                        add_row(result, weight, term, s * num_nodes + i, k * scales + s, i, lanes)


@compiled(nogil=True)
def backward(
    matrix: tuple[Array, ...],
    weight: Array,
    grad: Array,
    terms: tuple[Array, Array],
    b: tuple[Array, Array],
    edges: Array,
    projection: Array,
    steps: tuple[int, int],
    ahead: tuple[int, ...],
    lanes: tuple[int, ...],
    share: tuple[int, int],
) -> None:
    """Compute B_k for k from steps[1] - 1 down to steps[0], and what follows from it.

    B_k lies in b[k % 2], where B_(k+2) was; T_(k-1) likewise, where T_(k+1) was. One gather of a
    neighbour's rows of B and T serves both products and the gradient of the edge. S is symmetric,
    so only the sum of the gradients of S_ij and S_ji has a meaning: an edge below the diagonal gets
    all of it, the one above it none.

    Args beside those of :func:`.forward`:
        grad: [S, N * lanes] G.
        terms: two tiles, [N * lanes], with T_k in terms[k % 2] for the last two k; overwritten. No
            entries if neither the gradient of the edges nor that of the coefficients is needed.
        b: two tiles, overwritten.
        edges: [nnz] the gradients of the edges, which are added to.
        projection: [(K + 1) * S * lanes] <G, T_k>, which is added to, in float64; no entries if
            it is not needed.
    """
    rowptr, col, middle, val = matrix
    num_nodes, last = rowptr.size - 1, weight.shape[0] - 1
    scales = weight.shape[1]
    needs_terms = terms[0].size > 0
    for k in range(steps[1] - 1, steps[0] - 1, -1):
        b_k, b_next = b[k % 2], b[(k + 1) % 2]  # B_(k+2), which becomes B_k, and B_(k+1)
        term, t_next = terms[k % 2], terms[(k + 1) % 2]  # T_k, and T_(k+1), which becomes T_(k-1)
        twice = 1.0 if k == 0 else 2.0  # alpha of `AdjointOperator.differentiate`
        for block in range(share[0] * BLOCK, num_nodes, share[1] * BLOCK):
            for i in range(block, min(block + BLOCK, num_nodes)):
                start, stop = rowptr[i], rowptr[i + 1]
                if k == last:
                    clear_row(b_k, i, lanes)
                    clear_row(b_next, i, lanes)
                elif needs_terms:
                    adjoint_row(
                        b_next, b_k, term, t_next, edges, col, val,
                        start, middle[i], stop, i, twice, ahead, lanes,
                    )  # fmt: skip
                    if middle[i] < stop and col[middle[i]] == i:
                        edges[middle[i]] += twice * dot_row(b_next, term, i, lanes)
                else:
                    step_row(b_next, b_k, col, val, start, stop, i, twice, ahead, lanes)
                for s in range(scales):
                    row_k = k * scales + s
                    add_row(b_k, weight, grad, i, row_k, s * num_nodes + i, lanes)
                    if projection.size > 0:
                        project_row(grad, term, projection, s * num_nodes + i, i, row_k, lanes)


@compiled()
def renumber(
    rowptr: Array, col: Array, node: Array, place: Array
) -> tuple[Array, Array, Array, Array]:
    """Return the pattern with its rows in another order, whose columns ascend.

    The pattern is symmetric: so row r gets the column c whenever column c is passed with r in it,
    and passing columns in ascending order leaves nothing to sort.
    """
    new_rowptr = np.zeros_like(rowptr)
    for row in range(node.size):
        new_rowptr[row + 1] = new_rowptr[row] + rowptr[node[row] + 1] - rowptr[node[row]]
    filled = new_rowptr[:-1].copy()
    new_col, slot = np.zeros(col.size + MOST_AHEAD, np.int32), np.empty(col.size, np.int32)
    middle = new_rowptr[:-1].copy()
    for c in range(node.size):
        for old in range(rowptr[node[c]], rowptr[node[c] + 1]):
            row = place[col[old]]
            at = filled[row]
            new_col[at], slot[at] = c, old
            filled[row] += 1
            middle[row] += c < row
    return new_rowptr, new_col, middle, slot
