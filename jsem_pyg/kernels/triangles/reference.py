"""Triangles and squares by intersecting sorted neighbour lists, with scipy's sparse arithmetic.

Memory is bounded: edges are taken in chunks whose neighbour lists together have a limited length,
and nothing has N x N entries.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# How many neighbours the edges of one chunk may have in all.
_CHUNK_NEIGHBORS = 1 << 21


def triangle_sums(
    rowptr: IntArray, col: IntArray, values: FloatArray
) -> tuple[IntArray, FloatArray]:
    """For every slot (i, j): the number of triangles (i, j, k), and a sum over their other sides.

    Edges are directed from the lower to the higher degree, after which no node has more than
    sqrt(2 E) successors, and each triangle is found once, from its lowest node (Schank and Wagner,
    "Finding, counting and listing all triangles in large graphs", 2005, algorithm "forward").

    Args:
        rowptr: [N + 1] where each row begins.
        col: [nnz] the neighbours.
        values: [nnz] a number on every slot, alike in both directions.

    Returns:
        The counts [nnz], and the sums [nnz] of values_ik + values_jk over the triangles.
    """
    row = expand_rows(rowptr)
    triangle = _triangles(rowptr, row, col)
    others = values[triangle[[1, 0, 0]]] + values[triangle[[2, 2, 1]]]
    count: IntArray = np.bincount(triangle.ravel(), minlength=col.size)
    summed = np.bincount(triangle.ravel(), weights=others.ravel(), minlength=col.size)
    total = np.asarray(summed, dtype=np.float64)
    reverse = reverse_slots(col)
    return count + count[reverse], total + total[reverse]


def square_counts(rowptr: IntArray, col: IntArray) -> tuple[IntArray, IntArray]:
    """For every slot (i, j): the squares i - k - w - j - i without diagonals, seen from i.

    With c_k = |(N(j) & N(k)) - N(i) - {i}| for the neighbours k of i that are neither j nor
    neighbours of j: how many c_k are positive, and the largest of them (Topping et al. 2022,
    Definition 4). Slots with an end of degree one are skipped, their answer is zero.

    Args:
        rowptr: [N + 1] where each row begins.
        col: [nnz] the neighbours.

    Returns:
        The counts [nnz] and the largest c_k [nnz].
    """
    row, degree = expand_rows(rowptr), np.diff(rowptr)
    graph = _neighborhoods(rowptr, row, col)
    count, largest = np.zeros_like(col), np.zeros_like(col)
    slot = np.flatnonzero((degree[row] > 1) & (degree[col] > 1))
    for chunk in _chunks(degree[row[slot]] + degree[col[slot]]):
        at = slot[chunk]
        # The slots of all nodes i at hand: (i, k) for every k.
        around = slice(rowptr[row[at[0]]], rowptr[row[at[-1]] + 1])
        squares = _squares(graph, row, col, at, around)
        count[at] = np.diff(squares.indptr)
        filled = count[at] > 0
        if filled.any():
            # The entries of a row lie between its start and the start of the next filled row.
            starts = squares.indptr[:-1][filled]
            largest[at[filled]] = np.maximum.reduceat(squares.data, starts)
    return count, largest


def expand_rows(rowptr: IntArray) -> IntArray:
    """The row [nnz] of every slot."""
    return np.repeat(np.arange(rowptr.size - 1), np.diff(rowptr))


def reverse_slots(col: IntArray) -> IntArray:
    """The slot [nnz] of (j, i) for every slot (i, j) of a symmetric pattern.

    Sorted by column, then row, the n-th slot is the reverse of the n-th by row, then column.
    """
    return np.argsort(col, kind="stable")


def _triangles(rowptr: IntArray, row: IntArray, col: IntArray) -> IntArray:
    """The slots [3, T] of (u, v), (u, w) and (v, w) for triangles u < v < w, by degree."""
    num_nodes = rowptr.size - 1
    rank = np.empty(num_nodes, dtype=np.int64)
    rank[np.argsort(np.diff(rowptr), kind="stable")] = np.arange(num_nodes)
    forward = np.flatnonzero(rank[row] < rank[col])
    u, v = row[forward], col[forward]
    # The entries are slot numbers, from one on because a sparse array drops zeros.
    successors = _pattern(u, v, forward + 1, (num_nodes, num_nodes))
    ones = _pattern(u, v, np.ones_like(forward), (num_nodes, num_nodes))
    length = np.diff(successors.indptr)
    found = [np.empty((3, 0), dtype=np.int64)]
    for chunk in _chunks(length[u] + length[v]):
        uw = successors[u[chunk]].multiply(ones[v[chunk]])
        vw = ones[u[chunk]].multiply(successors[v[chunk]])
        uv = np.repeat(forward[chunk], np.diff(uw.indptr))
        found.append(np.stack([uv, uw.data - 1, vw.data - 1]))
    return np.concatenate(found, axis=1)


class _Neighborhoods(NamedTuple):
    """The N x N pattern of a graph, three times, with different entries."""

    open: csr_array  # ones at the neighbours of each node
    closed: csr_array  # ones at the neighbours and at the node itself
    numbered: csr_array  # slot + 1 at the neighbours; a sparse array would drop a zero


def _neighborhoods(rowptr: IntArray, row: IntArray, col: IntArray) -> _Neighborhoods:
    num_nodes = rowptr.size - 1
    shape, nodes = (num_nodes, num_nodes), np.arange(num_nodes)
    ones = _pattern(row, col, np.ones_like(col), shape)
    identity = _pattern(nodes, nodes, np.ones_like(nodes), shape)
    numbered = _pattern(row, col, np.arange(1, col.size + 1), shape)
    return _Neighborhoods(ones, ones + identity, numbered)


def _squares(
    graph: _Neighborhoods, row: IntArray, col: IntArray, slot: IntArray, around: slice
) -> csr_array:
    """c_k > 0 for the slots (i, j): a row for each of them, a column for each slot (i, k)."""
    i, j = row[around], col[around]
    # A row for each slot (i, j): the nodes next to j, but neither i nor next to i.
    outside = (graph.open[j] > graph.closed[i]).tocoo()
    # Its columns become pairs (i, w), so that slots of different i have nothing in common.
    pair = i[outside.row] * graph.open.shape[0] + outside.col
    pair, column = np.unique(pair, return_inverse=True)
    far = _pattern(outside.row, column, np.ones_like(column), (j.size, pair.size))
    meeting = far[slot - around.start] @ far.T.tocsr()
    meeting.sort_indices()
    # Not counted: k = j, and the k next to j.
    near = graph.numbered[row[slot]].multiply(graph.closed[col[slot]])
    column = near.data - 1 - around.start
    near = csr_array((np.ones_like(column), column, near.indptr), shape=meeting.shape)
    squares = meeting - meeting.multiply(near)
    squares.eliminate_zeros()
    return squares


def _pattern(row: IntArray, col: IntArray, data: IntArray, shape: tuple[int, int]) -> csr_array:
    """A CSR array from entries that are sorted by row."""
    rowptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=shape[0]))])
    return csr_array((data, col, rowptr), shape=shape)


def _chunks(cost: IntArray) -> Iterator[slice]:
    """Cut a sequence where its running cost passes multiples of the limit."""
    running = np.cumsum(cost)
    total = int(running[-1]) if cost.size else 0
    cuts = np.searchsorted(running, np.arange(_CHUNK_NEIGHBORS, total, _CHUNK_NEIGHBORS))
    bounds = np.unique(np.concatenate([[0], cuts, [cost.size]]))
    for start, stop in pairwise(bounds):
        yield slice(int(start), int(stop))
