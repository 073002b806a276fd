"""Dijkstra's algorithm, compiled, with a heap of four children.

SciPy's has a Fibonacci heap, whose nodes lie scattered in memory: it takes three to four times as
long on neighbour graphs of 2,000 to 25,000 points.

Source: Dijkstra, "A note on two problems in connexion with graphs", Numerische Mathematik 1, 1959;
Johnson, "Priority queues with update and finding minimum spanning trees", Information Processing
Letters 4, 1975, for heaps of more than two children.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import compiled

Array = NDArray[Any]


def distances(rowptr: Array, col: Array, length: Array, source: int, out: Array) -> None:
    """See the package."""
    heap, place = np.empty(out.size, np.int32), np.full(out.size, -1, np.int32)
    out[:] = np.inf
    _dijkstra(rowptr, col, length, source, out, heap, place)


@compiled()
def _dijkstra(
    rowptr: Array, col: Array, length: Array, source: int, out: Array, heap: Array, place: Array
) -> None:
    """Fill `out`, which is infinite; `place` [N] is where in `heap` [N] a node is, -1 for nowhere.

    A node that has left the heap is final, as lengths are not negative: it never comes back.
    """
    out[source], heap[0], place[source] = 0.0, source, 0
    size = 1
    while size > 0:
        node = heap[0]
        size -= 1
        if size > 0:
            _sink(heap, place, out, heap[size], size)
        for slot in range(rowptr[node], rowptr[node + 1]):
            other = col[slot]
            reached = out[node] + length[slot]
            if reached < out[other]:
                if place[other] < 0:
                    place[other] = size
                    size += 1
                out[other] = reached
                _rise(heap, place, out, other)


@compiled()
def _rise(heap: Array, place: Array, out: Array, node: int) -> None:
    """Bring a node, from its place, up to where no parent is farther than it is."""
    here = place[node]
    while here > 0:
        parent = (here - 1) >> 2
        above = heap[parent]
        if out[above] <= out[node]:
            break
        heap[here], place[above] = above, here
        here = parent
    heap[here], place[node] = node, here


@compiled()
def _sink(heap: Array, place: Array, out: Array, node: int, size: int) -> None:
    """Put a node at the top of a heap of this size, and down to where no child is nearer."""
    here = 0
    while 4 * here + 1 < size:
        child = 4 * here + 1
        for each in range(child + 1, min(child + 4, size)):
            if out[heap[each]] < out[heap[child]]:
                child = each
        below = heap[child]
        if out[below] >= out[node]:
            break
        heap[here], place[below] = below, here
        here = child
    heap[here], place[node] = node, here
