"""Rows in nested order: halves of halves, so that what any cache holds is a piece of the graph.

A band is as wide as the levels of a breadth-first search, which on a large graph do not fit a
cache. Halves of halves do, at some depth, whatever the size of the cache.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .compiled import compiled

Array = NDArray[Any]

# Rows of a piece that is not split any more: it fits the smallest cache.
_LEAF = 192

# Numbers that the cut of a piece is looked for among.
_BUCKETS = 1024


def nested_rows(rowptr: Array, col: Array, node: Array) -> Array:
    """The nodes [N] of a symmetric pattern in nested order, from an order `node` to begin with.

    Every piece is cut where a node is as far from one end of it as from the other: the ends are the
    first node and the one that a breadth-first search reaches last. The mean over the neighbours
    breaks ties, of which there are many, along the cut. (A rough Fiedler vector: it changes sign
    where that does, in a sixtieth of the time.)

    Source: George, "Nested dissection of a regular finite element mesh", SIAM Journal on Numerical
    Analysis 10 (1973); Gibbs, Poole and Stockmeyer, "An algorithm for reducing the bandwidth and
    profile of a sparse matrix", same journal 13 (1976), for ends by breadth-first search.
    """
    node = node.astype(np.int32)  # a copy
    place = np.empty_like(node)
    place[node] = np.arange(node.size, dtype=np.int32)
    bounds = np.array([0, node.size])
    rowptr, col = _keep_inside(rowptr, col, node, place, bounds)
    while (bounds[1:] - bounds[:-1]).max(initial=0) > _LEAF:
        moved, bounds = _split_all(rowptr, col, bounds)
        node = node[moved]
        place[moved] = np.arange(node.size, dtype=np.int32)
        rowptr, col = _keep_inside(rowptr, col, moved, place, bounds)
    return node


@compiled(nogil=True)
def _keep_inside(
    rowptr: Array, col: Array, node: Array, place: Array, bounds: Array
) -> tuple[Array, Array]:
    """The pattern with its rows in another order, but for the edges between two pieces."""
    new_rowptr, new_col = np.zeros_like(rowptr), np.empty(col.size, np.int32)
    at = 0
    for piece in range(bounds.size - 1):
        first, end = bounds[piece], bounds[piece + 1]
        for row in range(first, end):
            for slot in range(rowptr[node[row]], rowptr[node[row] + 1]):
                c = place[col[slot]]
                new_col[at] = c
                at += first <= c < end
            new_rowptr[row + 1] = at
    return new_rowptr, new_col[:at].copy()


@compiled(nogil=True)
def _split_all(rowptr: Array, col: Array, bounds: Array) -> tuple[Array, Array]:
    """Split every piece that is too large: the row that comes to each place, and the new bounds."""
    size = rowptr.size - 1
    near, far = np.empty(size, np.int32), np.empty(size, np.int32)
    side, smooth = np.empty(size, np.float32), np.empty(size, np.float32)
    queue, moved = np.empty(size, np.int32), np.arange(size).astype(np.int32)
    count = np.zeros(_BUCKETS, np.int64)
    new_bounds, num_bounds = np.zeros(2 * bounds.size, np.int64), 1
    for piece in range(bounds.size - 1):
        first, end = bounds[piece], bounds[piece + 1]
        if end - first > _LEAF:
            last = _search(rowptr, col, first, end, first, near, queue)
            _search(rowptr, col, first, end, last, far, queue)
            for row in range(first, end):
                side[row] = near[row] - far[row]
            for row in range(first, end):
                total = side[row]
                for slot in range(rowptr[row], rowptr[row + 1]):
                    total += side[col[slot]]
                smooth[row] = total / (1 + rowptr[row + 1] - rowptr[row])
            middle = first + (end - first) // 2
            _cut(smooth, first, middle, end, moved, count)
            new_bounds[num_bounds] = middle
            num_bounds += 1
        new_bounds[num_bounds] = end
        num_bounds += 1
    return moved, new_bounds[:num_bounds].copy()


@compiled(nogil=True)
def _search(
    rowptr: Array, col: Array, first: int, end: int, start: int, distance: Array, queue: Array
) -> int:
    """Breadth-first distances in a piece, and the row that is reached last.

    Where a piece is not connected, the search goes on from its next row, farther away than all.
    """
    distance[first:end] = -1
    distance[start], queue[first] = 0, start
    head, tail, beyond = first, first + 1, first
    while True:
        while head < tail:
            row = queue[head]
            head += 1
            for slot in range(rowptr[row], rowptr[row + 1]):
                if distance[col[slot]] < 0:
                    distance[col[slot]] = distance[row] + 1
                    queue[tail] = col[slot]
                    tail += 1
        if tail == end:
            return queue[end - 1]
        while distance[beyond] >= 0:
            beyond += 1
        distance[beyond] = distance[queue[tail - 1]] + 1
        queue[tail] = beyond
        tail += 1


@compiled(nogil=True)
def _cut(value: Array, first: int, middle: int, end: int, moved: Array, count: Array) -> None:
    """Move rows of low value to the places below the middle; apart from that they keep their order.

    Which of the rows in the bucket of the median are low, their order decides.
    """
    low, high = value[first], value[first]
    for row in range(first, end):
        low, high = min(low, value[row]), max(high, value[row])
    scale = (count.size - 1) / (high - low) if high > low else 0.0
    count[:] = 0
    for row in range(first, end):
        count[int((value[row] - low) * scale)] += 1
    bucket, left = 0, middle - first
    while left >= count[bucket]:
        left -= count[bucket]
        bucket += 1
    below, above = first, middle
    for row in range(first, end):
        own = int((value[row] - low) * scale)
        if own < bucket or (own == bucket and left > 0):
            left -= own == bucket
            moved[below] = row
            below += 1
        else:
            moved[above] = row
            above += 1
