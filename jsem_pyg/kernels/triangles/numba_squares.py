"""Squares without diagonals on the CPU, counted around one node after another.

Every node w two steps away from i shares some neighbours with it, and each pair of these makes a
square. Memory: two arrays of N entries per thread, and the paths of two steps from one node. Nodes
are relabelled first, so that the neighbourhood of a node is still in a cache for the next.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..compiled import compiled
from ..csr import CSR
from ..ordering import choose_ordering
from ..threads import run_on_rows

Array = NDArray[Any]

_LARGEST_MARK = 2**31 - 2
_HUB = 16  # so many times the other paths make it worth to look up their ends
_NODE_BYTES = 20  # that a node has, beside its neighbours: where they are, and the marks of it
# What a path loses if its end is in no cache (17 neighbours, 50,000 to 200,000 nodes).
_NS_OF_PATH = 20.0


def square_counts(csr: CSR) -> tuple[Tensor, Tensor]:
    """See :mod:`.squares`."""
    rowptr, col = csr.rowptr.numpy(), csr.col.numpy()
    paths = csr.num_slots / max(csr.num_rows, 1)  # two steps long, for every slot, about
    ordering = choose_ordering(csr, int(4 * paths) + _NODE_BYTES, _NS_OF_PATH * paths)
    order, place = (each.numpy() for each in csr.derived(ordering))
    new_rowptr, new_col, slot = _relabel(rowptr, col, order, place)
    found = np.zeros((2, col.size), np.int64)  # the count, and the largest
    run_on_rows(_squares, new_rowptr, new_col, *found)
    count, largest = np.empty_like(found)
    count[slot], largest[slot] = found
    return torch.from_numpy(count), torch.from_numpy(largest)


@compiled()
def _relabel(rowptr: Array, col: Array, order: Array, place: Array) -> tuple[Array, Array, Array]:
    """The pattern with its nodes in this order, and the old slot of each new.

    Rows are sorted, except that the neighbour of the highest degree comes last.
    """
    new_rowptr = np.zeros_like(rowptr)
    new_col, slot = np.empty_like(col), np.empty_like(col)
    degree = np.diff(rowptr)
    for new in range(order.size):
        first, last = rowptr[order[new]], rowptr[order[new] + 1]
        start, stop = new_rowptr[new], new_rowptr[new] + last - first
        new_rowptr[new + 1] = stop
        if first == last:
            continue
        ascending = np.argsort(place[col[first:last]])
        hub = np.argmax(degree[col[first:last]][ascending])
        for at in range(last - first):
            old = first + ascending[at if at < hub else min(at + 1, last - first - 1)]
            old = first + ascending[hub] if at == last - first - 1 else old
            new_col[start + at], slot[start + at] = place[col[old]], old
    return new_rowptr, new_col, slot


@compiled(nogil=True)
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
        others, num_others = np.empty(degree, np.int32), 0  # the k that j meets
        for j in range(degree):
            num_others = 0
            for path in range(begin[j], begin[j + 1]):
                for at in range(after[path], stop[end[path]]):
                    if met[middle[at]] == 0:
                        others[num_others] = middle[at]
                        num_others += 1
                    met[middle[at]] += 1
            if num_others == 0:
                continue
            node = col[start + j]
            for side in range(rowptr[node], rowptr[node + 1]):
                next_to_j[col[side]] = start + j
            for k in others[:num_others]:
                if next_to_j[col[start + k]] != start + j:
                    for slot in (start + j, start + k):
                        count[slot] += 1
                        largest[slot] = max(largest[slot], met[k])
                met[k] = 0


@compiled(nogil=True)
def _paths(rowptr: Array, col: Array, i: int, mark: Array, near: int) -> tuple[Array, Array, Array]:
    """The paths i - j - w to nodes w that are neither i nor next to it.

    Returns: the number of the w of each path, in the order of j; where the paths of each j begin;
    and how many paths end in each w. The number zero stands for nodes that are near. Through the
    last j, which has the highest degree, only ends of other paths count: where it has many
    neighbours, these are looked up among them. So a hub costs its neighbours little.
    """
    start, stop = rowptr[i], rowptr[i + 1]
    mark[i] = near
    room = 0
    for slot in range(start, stop):
        mark[col[slot]] = near
        room += rowptr[col[slot] + 1] - rowptr[col[slot]]
    many = 0 if start == stop else rowptr[col[stop - 1] + 1] - rowptr[col[stop - 1]]
    is_hub = many > _HUB * (room - many)
    room = 2 * (room - many) if is_hub else room
    ends = np.empty(room + 1, np.int32)  # the w of each number
    end, begin = np.empty(room + 1, np.int32), np.empty(stop - start + 1, np.int64)
    length = np.zeros(min(room, mark.size) + 1, np.int32)
    paths, found = 0, 0
    for slot in range(start, stop):
        begin[slot - start] = paths
        if is_hub and slot == stop - 1:
            first, last = rowptr[col[slot]], rowptr[col[slot] + 1] - 1
            for number in range(1, found + 1):
                w = ends[number]
                at = first + np.searchsorted(col[first:last], w)
                if col[at] == w or col[last] == w:  # the last one is not in order
                    end[paths] = number
                    length[number] += 1
                    paths += 1
            break
        for side in range(rowptr[col[slot]], rowptr[col[slot] + 1]):
            # No branches in here, since no processor could predict them.
            w = col[side]
            is_new = mark[w] < near
            found += is_new
            ends[found] = w if is_new else ends[found]
            mark[w] = near + found if is_new else mark[w]
            end[paths] = mark[w] - near
            length[end[paths]] += 1
            paths += mark[w] != near
    begin[stop - start] = paths
    return end, begin, length[: found + 1]


@compiled(nogil=True)
def _drop_single_paths(end: Array, begin: Array, length: Array) -> None:
    """Keep the paths whose end has other paths too, in place."""
    kept = 0
    for j in range(begin.size - 1):
        first, begin[j] = begin[j], kept
        for path in range(first, begin[j + 1]):
            end[kept] = end[path]
            kept += length[end[path]] > 1
    begin[-1] = kept


@compiled(nogil=True)
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
