"""An order in which rows near one another share neighbours: in blocks of a cache, and of 16 rows.

1. A few breadth-first searches give coordinates to nodes: their distances from far ends of the
   graph, smoothed by a few means over neighbours (Harel and Koren, "Graph drawing by
   high-dimensional embedding", 2002).
2. Nodes are halved by the widest coordinate, and the halves again, down to blocks of a cache.
3. Within a block rows follow one another greedily: next is the one that shares the greatest part of
   its neighbours with its window of 16 rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .compiled import compiled

Array = NDArray[Any]

ROWS = 16  # of a window
_BLOCK = 1024
_PIVOTS, _MEANS = 8, 3
_HUB = 256  # neighbours of nodes with more of them are not compared


def local_order(rowptr: Array, col: Array, base: Array) -> Array:
    """Return the nodes [N] of a symmetric pattern in this order, the same in any process.

    `base` is an order with neighbours in a band, in which caches serve all of this better.
    """
    ones, shape = np.ones(col.size, np.float32), (base.size, base.size)
    links = csr_array((ones, col, rowptr), shape)[base][:, base]
    x = _distances(links.indptr, links.indices, np.empty((base.size, _PIVOTS), np.float32))
    for _ in range(_MEANS):
        x = (x + links @ x) / (1 + np.diff(links.indptr)[:, None])
    blocks = _halved(x)
    links = links[blocks][:, blocks]
    return base[blocks[_windows(links.indptr, links.indices)]]


@compiled()
def _distances(rowptr: Array, col: Array, x: Array) -> Array:
    """Count the edges to each pivot; the next one is farthest from those before.

    Nodes that no edges lead to are visited after all others, component by component.
    """
    num_nodes, num_pivots = x.shape
    queue, nearest = np.empty(num_nodes, np.int64), np.full(num_nodes, np.inf, np.float32)
    pivot = 0
    for j in range(num_pivots):
        x[:, j] = -1
        begin, end, other, level = 0, 0, 0, 0.0
        while end < num_nodes:  # a component
            start = pivot
            if end > 0:
                while x[other, j] >= 0:
                    other += 1
                start, level = other, x[queue[end - 1], j] + 1
            x[start, j], queue[end] = level, start
            end += 1
            while begin < end:
                node = queue[begin]
                begin += 1
                for slot in range(rowptr[node], rowptr[node + 1]):
                    if x[col[slot], j] < 0:
                        x[col[slot], j] = x[node, j] + 1
                        queue[end] = col[slot]
                        end += 1
        for i in range(num_nodes):
            nearest[i] = min(nearest[i], x[i, j])
        pivot = int(nearest.argmax())
    return x


@compiled()
def _halved(x: Array) -> Array:
    """Halve the nodes by their widest coordinate, until all parts are blocks."""
    order = np.arange(len(x)).astype(np.int32)
    todo = [(0, len(x))]
    while len(todo) > 0:
        begin, end = todo.pop()
        blocks = (end - begin + _BLOCK - 1) // _BLOCK
        if blocks < 2:
            continue
        part = order[begin:end].copy()
        widest, axis = -1.0, 0
        for j in range(x.shape[1]):
            total, squares = 0.0, 0.0
            for node in part:
                total += x[node, j]
                squares += x[node, j] ** 2
            width = squares - total**2 / part.size
            if width > widest:
                widest, axis = width, j
        order[begin:end] = part[np.argsort(x[part, axis], kind="mergesort")]
        middle = begin + blocks // 2 * _BLOCK
        todo.append((begin, middle))
        todo.append((middle, end))
    return order


@compiled()
def _windows(rowptr: Array, col: Array) -> Array:
    """Order the rows within blocks, so that rows of a window share neighbours."""
    num_rows = rowptr.size - 1
    order = np.empty(num_rows, np.int32)
    window_of = np.full(num_rows, -1)  # the last one in which a node was a neighbour
    for begin in range(0, num_rows, _BLOCK):
        end = min(begin + _BLOCK, num_rows)
        shared = np.zeros(end - begin, np.float32)  # what a row has in common with the window
        for at in range(begin, end):
            node = begin + int(shared.argmax())
            if at % ROWS == 0:
                shared[:] = np.minimum(shared, 0)
            order[at], shared[node - begin] = node, -np.inf
            for slot in range(rowptr[node], rowptr[node + 1]):
                neighbour = col[slot]
                first, last = rowptr[neighbour], rowptr[neighbour + 1]
                if window_of[neighbour] == at // ROWS or last - first > _HUB:
                    continue
                window_of[neighbour] = at // ROWS
                for back in range(first, last):
                    if begin <= col[back] < end:
                        degree = rowptr[col[back] + 1] - rowptr[col[back]]
                        shared[col[back] - begin] += np.float32(1) / np.float32(degree)
    return order
