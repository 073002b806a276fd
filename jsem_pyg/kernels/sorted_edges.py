"""Sorting by counting, compiled: a few passes over the edges, on one core.

These passes wait for memory rather than count, so random accesses are prefetched.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .compiled import compiled, prefetch

Array = NDArray[Any]

_AHEAD = 16  # slots
_ASCENDING, _REPEATED, _UNSORTED, _OUTSIDE = range(4)  # what a scan may find


def sort_by_counting(
    source: Array, target: Array, num_nodes: int, narrow: type[np.integer[Any]]
) -> tuple[Array | None, ...] | None:
    """Sort edges for :func:`.csr.sort_edges`; the ones that are in order already stay in place.

    Returns row pointers, columns, rows, reverses, order and slot, the indices of a narrow type.
    """
    rowptr, found = _scan(source, target, num_nodes)
    if found == _OUTSIDE:
        return None
    order, slot = None, None
    rows, columns = (each.astype(narrow) for each in (source, target))  # copies: these may change
    if found == _UNSORTED:
        order = _sorting_order(source, target, num_nodes, np.empty(source.size, narrow))
        rows, columns = rows[order], columns[order]
        rowptr, found = _scan(rows, columns, num_nodes)
    if found == _REPEATED:
        is_new = np.ones(rows.size, np.bool_)
        is_new[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
        slot = np.cumsum(is_new, dtype=narrow) - 1
        if order is not None:
            slot[order], order = slot.copy(), None
        rows, columns = rows[is_new], columns[is_new]
        rowptr, _ = _scan(rows, columns, num_nodes)
    reverse, is_symmetric = _reverse_slots(rowptr, columns)
    if not is_symmetric:
        return None
    return rowptr, columns, rows, reverse, order, slot


@compiled()
def _scan(row: Array, col: Array, num_nodes: int) -> tuple[Array, int]:
    """Find where rows begin, if they ascend, and how far the list is from a sorted graph."""
    rowptr = np.empty(num_nodes + 1, np.int64)
    begun = np.int64(0)  # rows whose beginning is found
    last_col = np.int64(-1)  # the column before, in the same row
    found = _ASCENDING
    for slot in range(row.size):
        i, j = np.int64(row[slot]), np.int64(col[slot])
        if not (0 <= i < num_nodes and 0 <= j < num_nodes) or i == j:
            return rowptr, _OUTSIDE
        if i < begun - 1 or (i == begun - 1 and j < last_col):
            found = _UNSORTED
        elif i >= begun:
            rowptr[begun : i + 1] = slot
            begun = i + 1
        elif j == last_col and found == _ASCENDING:
            found = _REPEATED
        last_col = j
    rowptr[begun:] = row.size
    return rowptr, found


@compiled()
def _sorting_order(row: Array, col: Array, num_nodes: int, order: Array) -> Array:
    """Return the order [E] that sorts by row, then column: counted by column, then by row."""
    by_row, by_col = np.zeros((2, num_nodes + 1), np.int64)
    for slot in range(row.size):
        by_row[row[slot] + 1] += 1
        by_col[col[slot] + 1] += 1
    for i in range(num_nodes):
        by_row[i + 1] += by_row[i]
        by_col[i + 1] += by_col[i]
    first = np.empty_like(order)
    for slot in range(row.size):
        first[by_col[col[slot]]] = slot
        by_col[col[slot]] += 1
    for at in range(row.size):
        if at + _AHEAD < row.size:
            prefetch(row, first[at + _AHEAD])
        slot = first[at]
        order[by_row[row[slot]]] = slot
        by_row[row[slot]] += 1
    return order


@compiled()
def _reverse_slots(rowptr: Array, col: Array) -> tuple[Array, bool]:
    # Slots are visited by row, so those with a column j have to come in the order of row j.
    place = rowptr[:-1].copy()
    reverse = np.empty_like(col)
    for i in range(place.size):
        for slot in range(rowptr[i], rowptr[i + 1]):
            if slot + 2 * _AHEAD < col.size:
                prefetch(place, col[slot + 2 * _AHEAD])
                prefetch(col, place[col[slot + _AHEAD]])
            j = col[slot]
            back = place[j]
            if back == rowptr[j + 1] or col[back] != i:
                return reverse, False
            reverse[slot] = back
            place[j] += 1
    return reverse, True


@compiled()
def factor_work(col: Array, rowptr: Array, most: float) -> float:
    """Sum the squares of the columns' lengths in the Cholesky factor; counting ends above `most`.

    Row i of the factor has the nodes on the ways from the neighbours of i up the elimination tree
    (Liu, "The role of elimination trees in sparse factorization", 1990).
    """
    parent, seen = np.full((2, rowptr.size - 1), -1)
    length, work = np.zeros(parent.size), 0.0
    for i in range(parent.size):
        seen[i] = i
        for j in col[rowptr[i] : rowptr[i + 1]]:
            while j < i and seen[j] != i:
                seen[j], parent[j] = i, i if parent[j] < 0 else parent[j]
                work += 2 * length[j] + 1
                length[j] += 1
                j = parent[j]
        if work > most:
            break
    return work
