"""Triangles and squares on the CPU, each node's neighbourhood marked in an array of flags.

An edge is looked at from its end of higher degree, whose neighbours are marked: only the shorter of
two neighbour lists is read, which bounds the steps by the number of edges times the arboricity of
the graph (Chiba and Nishizeki, "Arboricity and subgraph listing algorithms", 1985). Squares are
counted around a node i: every node w two steps away meets i in some of its neighbours, and each
pair of these is a square. Memory: a few arrays of N entries per thread, and the paths of two steps
from one node.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from ..csr import CSR

Array = NDArray[Any]

_LARGEST_MARK = 2**31 - 2
_PARTS = 8  # of the rows, for each thread: the next one takes the next part, so that all end alike


def reverse_slots(csr: CSR) -> Tensor | None:
    """See :func:`.reference.reverse_slots`."""
    reverse, is_symmetric = _reverse_slots(csr.rowptr.numpy(), csr.col.numpy())
    return torch.from_numpy(reverse) if is_symmetric else None


def triangle_sums(csr: CSR, reverse: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """See :func:`.reference.triangle_sums`."""
    count = np.zeros(csr.col.numel(), np.int64)
    total = np.zeros(csr.col.numel())
    arrays = (csr.rowptr, csr.col, reverse, values.double())
    _run(_triangles, *(each.contiguous().numpy() for each in arrays), count, total)
    return torch.from_numpy(count), torch.from_numpy(total)


def square_counts(csr: CSR) -> tuple[Tensor, Tensor]:
    """See :func:`.reference.square_counts`."""
    count = np.zeros(csr.col.numel(), np.int64)
    largest = np.zeros(csr.col.numel(), np.int64)
    _run(_squares, csr.rowptr.numpy(), csr.col.contiguous().numpy(), count, largest)
    return torch.from_numpy(count), torch.from_numpy(largest)


def _run(kernel: Callable[..., None], rowptr: Array, *arrays: Array) -> None:
    """Run a kernel on parts of the rows that have about as many entries each."""
    threads = torch.get_num_threads()
    parts = 1 if threads == 1 else threads * _PARTS
    bounds = np.searchsorted(rowptr, np.linspace(0, rowptr[-1], parts + 1)[1:-1])
    bounds = np.unique([0, *bounds, rowptr.size - 1])
    if threads == 1 or bounds.size <= 2:
        kernel(rowptr, *arrays, 0, rowptr.size - 1)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: kernel(rowptr, *arrays, *part), pairwise(bounds)))


@njit(cache=True)
def _reverse_slots(rowptr: Array, col: Array) -> tuple[Array, bool]:
    # Slots are visited by row, so those with a column j have to come in the order of row j.
    place = rowptr[:-1].copy()
    reverse = np.empty(col.size, np.int64)
    for i in range(place.size):
        for slot in range(rowptr[i], rowptr[i + 1]):
            j = col[slot]
            back = place[j]
            if back == rowptr[j + 1] or col[back] != i:
                return reverse, False
            reverse[slot] = back
            place[j] += 1
    return reverse, True


@njit(nogil=True, cache=True)
def _triangles(
    rowptr: Array,
    col: Array,
    reverse: Array,
    values: Array,
    count: Array,
    total: Array,
    first: int,
    last: int,
) -> None:
    value_to = np.zeros(
        rowptr.size - 1
    )  # of the neighbours of i; zero, which no value is, of others
    for i in range(first, last):
        start, stop = rowptr[i], rowptr[i + 1]
        for slot in range(start, stop):
            value_to[col[slot]] = values[slot]
        for slot in range(start, stop):
            j = col[slot]
            other = rowptr[j + 1] - rowptr[j]
            if other > stop - start or (other == stop - start and j > i):
                continue  # that end looks at this edge
            common, both = 0.0, 0.0
            for side in range(rowptr[j], rowptr[j + 1]):
                value = value_to[col[side]]
                near = 1.0 if value != 0 else 0.0
                common += near
                both += value + near * values[side]
            back = reverse[slot]
            count[slot], total[slot] = int(common), both
            count[back], total[back] = int(common), both
        for slot in range(start, stop):
            value_to[col[slot]] = 0


@njit(nogil=True, cache=True)
def _squares(
    rowptr: Array, col: Array, count: Array, largest: Array, first: int, last: int
) -> None:
    size = rowptr.size - 1
    # What a node is to i: less than `near` for nothing, `near` for i and its neighbours, and above
    # for a node two steps away, by its number. So that no mark has to be wiped off, `near` grows.
    mark, near = np.full(size, -1, np.int32), 0
    next_to_j = np.full(size, -1, np.int64)  # the slot (i, j) for which a node was a neighbour of j
    for i in range(first, last):
        start, degree = rowptr[i], rowptr[i + 1] - rowptr[i]
        if near > _LARGEST_MARK - size:
            mark[:], near = -1, 0
        end, begin, length = _paths(rowptr, col, i, mark, near)
        near += length.size
        _drop_single_paths(end, begin, length)
        middle, after, stop = _middles(end, begin, length)
        met = np.zeros(degree, np.int32)  # c_k, by the place of k among the neighbours of i
        for j in range(degree):
            if begin[j] == begin[j + 1]:
                continue
            for path in range(begin[j], begin[j + 1]):
                for at in range(after[path], stop[end[path]]):
                    met[middle[at]] += 1
            node = col[start + j]
            for side in range(rowptr[node], rowptr[node + 1]):
                next_to_j[col[side]] = start + j
            for k in range(j + 1, degree):
                if met[k] > 0 and next_to_j[col[start + k]] != start + j:
                    for slot in (start + j, start + k):
                        count[slot] += 1
                        largest[slot] = max(largest[slot], met[k])
                met[k] = 0


@njit(nogil=True, cache=True)
def _paths(rowptr: Array, col: Array, i: int, mark: Array, near: int) -> tuple[Array, Array, Array]:
    """The paths i - j - w to nodes w that are neither i nor next to it.

    Returns: the number of the w of each path, in the order of j; where the paths of each j begin;
    and how many paths end in each w. The number zero stands for nodes that are near.
    """
    start, stop = rowptr[i], rowptr[i + 1]
    mark[i] = near
    room = 0
    for slot in range(start, stop):
        mark[col[slot]] = near
        room += rowptr[col[slot] + 1] - rowptr[col[slot]]
    end, begin = np.empty(room + 1, np.int32), np.empty(stop - start + 1, np.int64)
    length = np.zeros(min(room, mark.size) + 1, np.int32)
    paths, found = 0, 0
    for slot in range(start, stop):
        begin[slot - start] = paths
        for side in range(rowptr[col[slot]], rowptr[col[slot] + 1]):
            # No branches in here, since no processor could predict them.
            w = col[side]
            is_new = mark[w] < near
            found += is_new
            mark[w] = near + found if is_new else mark[w]
            end[paths] = mark[w] - near
            length[end[paths]] += 1
            paths += mark[w] != near
    begin[stop - start] = paths
    return end, begin, length[: found + 1]


@njit(nogil=True, cache=True)
def _drop_single_paths(end: Array, begin: Array, length: Array) -> None:
    """Keep the paths whose end has other paths too, in place."""
    kept = 0
    for j in range(begin.size - 1):
        first, begin[j] = begin[j], kept
        for path in range(first, begin[j + 1]):
            end[kept] = end[path]
            kept += length[end[path]] > 1
    begin[-1] = kept


@njit(nogil=True, cache=True)
def _middles(end: Array, begin: Array, length: Array) -> tuple[Array, Array, Array]:
    """For each w, the list of the j before it, ascending.

    Returns: the lists, one after another; for each path, where its j's successor is; and where the
    list of each w stops.
    """
    filled = np.cumsum(length) - length
    middle = np.empty(filled[-1] + length[-1], np.int32)
    after = np.empty(begin[-1], np.int64)
    for j in range(begin.size - 1):
        for path in range(begin[j], begin[j + 1]):
            middle[filled[end[path]]] = j
            filled[end[path]] += 1
            after[path] = filled[end[path]]
    return middle, after, filled
