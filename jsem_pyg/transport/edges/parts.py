r"""Parts of an assignment: where more could be kept, and which of two assignments keeps more there.

Two assignments m and n differ at some nodes. With :math:`d_{ij} = A_{ij} (B_{n_i n_j} + B_{m_i m_j}
- B_{n_i m_j} - B_{m_i n_j})`, the nodes i and j change together where that is not zero, or where
one takes the partner that the other had. Between the parts that are not linked so, gains add up,
so that each part can be taken from the assignment that keeps more of it.

Source: Whitley, Hains and Howe, "Tunneling between optima: partition crossover for the traveling
salesman problem", GECCO 2009.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from .moves import Assignment, Task, kept_weight, pulled

Array = NDArray[Any]

_ROUNDING = 1e-5  # of sums of weights, whose root mean square is one


def best_parts(task: Task, first: Assignment, second: Assignment) -> Assignment:
    """The assignment that takes each part from the one that keeps more there."""
    size = len(first.partner)
    stay, turn, both = (
        task.source * pulled(task.target, one, other)
        for one, other in (
            (first.partner, first.partner),
            (second.partner, first.partner),
            (second.partner, second.partner),
        )
    )
    together = both + stay - turn - turn.T
    gain = 2 * (turn - stay).sum(1) + together.sum(1)
    is_linked = abs(together) > _ROUNDING
    holder = np.full(task.target.shape[0], -1)
    holder[first.partner] = np.arange(size)
    rival = holder[second.partner]
    takes = np.flatnonzero(rival >= 0)
    follows = coo_array((np.ones(len(takes), bool), (takes, rival[takes])), (size, size))
    _, part = connected_components(is_linked + follows.tocsr(), directed=False)
    is_better = np.bincount(part, gain) > _ROUNDING
    partner = np.where(is_better[part], second.partner, first.partner)
    found = Assignment(partner, kept_weight(task, partner))
    return max(first, second, found, key=lambda each: each.kept)


def open_nodes(task: Task, partner: Array, believed: Array | None = None) -> Array:
    """Nodes [R] that keep fewer edges than they and their partner have, and their neighbours.

    So are those that are not `believed` [N]. If there are none, as between graphs that differ in
    weights alone, all nodes are open.
    """
    first, second = (
        csr_array((np.ones(each.nnz, np.float32), each.indices, each.indptr), each.shape)
        for each in task[:2]
    )
    kept = (first * pulled(second, partner)).sum(1)
    is_open = kept < np.minimum(np.diff(first.indptr), np.diff(second.indptr)[partner])
    is_open |= first @ is_open.astype(np.float32) > 0
    if believed is not None:
        is_open |= ~believed
    return np.flatnonzero(is_open) if is_open.any() else np.arange(len(partner))
