"""The pattern of S for the numba kernels: its nodes renumbered, so that neighbours lie close."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import compiled
from ..csr import CSR
from ..ordering import Ordering

Array = NDArray[Any]

MOST_AHEAD = 512  # by how many edges a loop may look ahead, beyond the last one too


class OrderedPattern(NamedTuple):
    """A CSR pattern with its nodes renumbered."""

    rowptr: Array  # [N + 1]
    col: Array  # [nnz + MOST_AHEAD] int32, zeros at the end
    middle: Array  # [N] where, in each row, the columns are no longer below the diagonal
    node: Array  # [N] the node that each row stands for
    place: Array  # [N] the row of each node
    slot: Array  # [nnz] the slot that each entry comes from, or that of its reverse


def ordered_pattern(csr: CSR, ordering: Ordering) -> OrderedPattern:
    """Order a pattern; take it by ``csr.derived(ordered_pattern, ordering)``."""
    node, place = (each.numpy() for each in csr.derived(ordering))
    rowptr, col, middle, slot = _renumber(csr.rowptr.numpy(), csr.col.numpy(), node, place)
    return OrderedPattern(rowptr, col, middle, node, place, slot)


@compiled()
def _renumber(
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
