"""From a list of edges to a pattern, on the CPU: order, checks, and the reverse of each edge.

All on one core, since these passes wait for memory rather than count. What random access remains is
asked for ahead of time.
"""

from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from ..csr import CSR, SymmetricCSR
from ..prefetch import prefetch

Array = NDArray[Any]

_AHEAD = 16  # slots


def read_edges(row: Tensor, col: Tensor, num_nodes: int) -> SymmetricCSR | None:
    """See :func:`.reference.read_edges`.

    Edges that are sorted, by source or by target, stay as they are.
    """
    source, target = row.contiguous().numpy(), col.contiguous().numpy()
    order = None
    rowptr, is_simple = _scan(source, target, num_nodes)
    if not is_simple:
        source, target = target, source  # the same edges, if the graph is undirected
        rowptr, is_simple = _scan(source, target, num_nodes)
    if not is_simple:
        order, is_inside = _sorting_order(source, target, num_nodes)
        if not is_inside:
            return None
        source, target = source[order], target[order]
        rowptr, is_simple = _scan(source, target, num_nodes)
    if not is_simple:
        return None
    reverse, is_symmetric = _reverse_slots(rowptr, target)
    if not is_symmetric:
        return None
    csr = CSR(*map(torch.from_numpy, (rowptr, source, target)))
    places = None if order is None else torch.from_numpy(order)
    return SymmetricCSR(csr, torch.from_numpy(reverse), places)


@njit(cache=True)
def _scan(row: Array, col: Array, num_nodes: int) -> tuple[Array, bool]:
    """Where rows begin, and whether edges ascend by row, then column, inside, without loops."""
    rowptr = np.empty(num_nodes + 1, np.int64)
    begun, last_col = 0, -1  # rows whose beginning is known; the column before, in the same row
    for slot in range(row.size):
        i, j = row[slot], col[slot]
        is_inside = 0 <= i < num_nodes and 0 <= j < num_nodes
        if not is_inside or i < begun - 1 or i == j:
            return rowptr, False
        if i >= begun:
            rowptr[begun : i + 1] = slot
            begun = i + 1
        elif j <= last_col:
            return rowptr, False
        last_col = j
    rowptr[begun:] = row.size
    return rowptr, True


@njit(cache=True)
def _sorting_order(row: Array, col: Array, num_nodes: int) -> tuple[Array, bool]:
    """The order [E] that sorts by row, then column: counted by column, then by row.

    And whether all indices are in range; if not, there is no order.
    """
    order = np.empty(row.size, np.int64)
    by_row, by_col = np.zeros((2, num_nodes + 1), np.int64)
    for slot in range(row.size):
        if not (0 <= row[slot] < num_nodes and 0 <= col[slot] < num_nodes):
            return order, False
        by_row[row[slot] + 1] += 1
        by_col[col[slot] + 1] += 1
    for i in range(num_nodes):
        by_row[i + 1] += by_row[i]
        by_col[i + 1] += by_col[i]
    first = np.empty(row.size, np.int64)
    for slot in range(row.size):
        first[by_col[col[slot]]] = slot
        by_col[col[slot]] += 1
    for at in range(row.size):
        if at + _AHEAD < row.size:
            prefetch(row, first[at + _AHEAD])
        slot = first[at]
        order[by_row[row[slot]]] = slot
        by_row[row[slot]] += 1
    return order, True


@njit(cache=True)
def _reverse_slots(rowptr: Array, col: Array) -> tuple[Array, bool]:
    # Slots are visited by row, so those with a column j have to come in the order of row j.
    place = rowptr[:-1].copy()
    reverse = np.empty(col.size, np.int64)
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
