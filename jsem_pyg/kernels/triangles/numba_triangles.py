"""Triangles on the CPU, each node's neighbourhood marked in an array of N entries per thread.

An edge is looked at from its end of higher degree, whose neighbours are marked: only the shorter of
two neighbour lists is read, which bounds the steps by the number of edges times the arboricity of
the graph (Chiba and Nishizeki, "Arboricity and subgraph listing algorithms", 1985).
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..compiled import compiled, prefetch
from ..csr import CSR
from ..threads import run_on_rows

Array = NDArray[Any]

_AHEAD = 8  # edges: the rows of their other ends are prefetched, the first three lines of each
_LINE = 8  # numbers
_LONG_SCAN = 1 << 20  # entries; a shorter one is over before another thread has begun
_LONG_WALK = 1 << 15  # entries, of which each is as long as the shorter of two rows

# Lengths are subtracted from a sum of all, unless so little is left that rounding would show: then
# they are added up.
_LONG_REACH = 1e6

# Sums may be taken in any order, by several at once.
_SUMS = {"reassoc", "nsz", "contract"}

_scan = partial(run_on_rows, threads_from=_LONG_SCAN)
_walk = partial(run_on_rows, threads_from=_LONG_WALK)


def triangle_counts(csr: CSR, reverse: Tensor) -> Tensor:
    """See the package."""
    ones = torch.ones(csr.col.numel(), dtype=torch.float64)
    curvature = forman(csr, reverse, ones, with_triangles=True).numpy()
    # Of weights one, it is 4 - d_i - d_j and three for each triangle, exactly.
    degree = np.diff(csr.rowptr.numpy())
    ends = degree[csr.row.numpy()] + degree[csr.col.numpy()]
    return torch.from_numpy((curvature - 4 + ends).astype(np.int64) // 3)


def forman(csr: CSR, reverse: Tensor, weight: Tensor, with_triangles: bool) -> Tensor:
    """See the package."""
    rowptr, col = csr.rowptr.numpy(), csr.col.numpy()
    length, reach = np.empty(col.size), np.empty(rowptr.size - 1)
    _scan(_lengths, rowptr, weight.contiguous().numpy(), length, reach)
    curvature = np.empty(col.size)
    if with_triangles:
        _walk(_augmented, rowptr, col, reverse.numpy(), length, reach, curvature)
    else:
        _scan(_one_dimensional, rowptr, col, length, reach, curvature)
    return torch.from_numpy(curvature)


def list_triangles(csr: CSR, reverse: Tensor) -> Tensor:
    """See the package."""
    count = int(triangle_counts(csr, reverse).numpy().sum()) // 6  # of three edges, twice each
    found = np.empty((3, count), np.int64)
    _list(csr.rowptr.numpy(), csr.col.numpy(), found)
    return torch.from_numpy(found)


@compiled(nogil=True, error_model="numpy")
def _lengths(
    rowptr: Array, weight: Array, length: Array, reach: Array, first: int, last: int
) -> None:
    """Compute the length w^(-1/2) of each edge, and the sums at each node."""
    for i in range(first, last):
        total = 0.0
        for slot in range(rowptr[i], rowptr[i + 1]):
            length[slot] = 1 / np.sqrt(weight[slot])
            total += length[slot]
        reach[i] = total


@compiled(nogil=True, error_model="numpy")
def _one_dimensional(
    rowptr: Array, col: Array, length: Array, reach: Array, curvature: Array, first: int, last: int
) -> None:
    for i in range(first, last):
        for slot in range(rowptr[i], rowptr[i + 1]):
            # The edge itself is among the lengths at both ends: sqrt(w) w^(-1/2) twice, 2 + 2 = 4.
            curvature[slot] = 4 - (reach[i] + reach[col[slot]]) / length[slot]


@compiled(nogil=True)
def _ask_for(array: Array, start: int) -> None:
    """Prefetch what a short row has from `start` on."""
    for line in range(0, 3 * _LINE, _LINE):
        prefetch(array, start + line)


@compiled(nogil=True)
def _apart(rowptr: Array, col: Array, length: Array, i: int, j: int) -> float:
    """Add up the lengths of all other edges of i and j that are in no triangle with this one."""
    total = 0.0
    mine, other = rowptr[i], rowptr[j]
    while mine < rowptr[i + 1] or other < rowptr[j + 1]:
        k = col[mine] if mine < rowptr[i + 1] else rowptr.size
        n = col[other] if other < rowptr[j + 1] else rowptr.size
        if k < n and k != j:
            total += length[mine]
        if n < k and n != i:
            total += length[other]
        mine += k <= n
        other += n <= k
    return total


@compiled(nogil=True, error_model="numpy", fastmath=_SUMS)
def _augmented(
    rowptr: Array,
    col: Array,
    reverse: Array,
    length: Array,
    reach: Array,
    curvature: Array,
    first: int,
    last: int,
) -> None:
    length_to = np.zeros(reach.size)  # of the edges of i; zero, which no length is, to others
    for i in range(first, last):
        start, stop = rowptr[i], rowptr[i + 1]
        for slot in range(start, stop):
            length_to[col[slot]] = length[slot]
        for slot in range(start, stop):
            if slot + 2 * _AHEAD < col.size:
                prefetch(rowptr, col[slot + 2 * _AHEAD])
                _ask_for(col, rowptr[col[slot + _AHEAD]])
                _ask_for(length, rowptr[col[slot + _AHEAD]])
            j = col[slot]
            other = rowptr[j + 1] - rowptr[j]
            if other > stop - start or (other == stop - start and j > i):
                continue  # that end looks at this edge
            common, sides = 0.0, 0.0
            for side in range(rowptr[j], rowptr[j + 1]):
                near = 1.0 if length_to[col[side]] != 0 else 0.0
                common += near
                sides += length_to[col[side]] + near * length[side]
            root = 1 / length[slot]
            # The edge itself is in the reach of both ends, which is 2 too much.
            every, apart = root * (reach[i] + reach[j]), root * (reach[i] + reach[j] - sides) - 2
            if every > _LONG_REACH and apart < every / _LONG_REACH:
                apart = root * _apart(rowptr, col, length, i, j)
            value = 2 - apart + root**4 * common
            curvature[slot] = curvature[reverse[slot]] = value
        for slot in range(start, stop):
            length_to[col[slot]] = 0


@compiled(nogil=True)
def _list(rowptr: Array, col: Array, found: Array) -> None:
    """Look up the shorter of both rows of each edge in the longer one."""
    count = 0
    for i in range(rowptr.size - 1):
        mine = col[rowptr[i] : rowptr[i + 1]]
        for j in mine[np.searchsorted(mine, i) :]:
            other = col[rowptr[j] : rowptr[j + 1]]
            short, long = (mine, other) if mine.size < other.size else (other, mine)
            for k in short[np.searchsorted(short, j) :]:
                place = np.searchsorted(long, k)
                if k > j and place < long.size and long[place] == k:
                    found[0, count], found[1, count], found[2, count] = i, j, k
                    count += 1
