r"""Moves that make an assignment keep more edges.

All run on the CPU, in time and memory that grow with the edges:

- *percolation*: the best assignment of the scores by matched neighbours comes next. It spreads from
  few right pairs to all, but goes by the neighbours of the step before.
- *swaps* of two partners repair what percolation cannot: nodes whose neighbours are nearly
  the same. With :math:`\mathbf{B}' = \mathbf{P} \mathbf{B} \mathbf{P}^T` and
  :math:`\mathbf{M} = \mathbf{A} \mathbf{B}'`, a swap of a and b gains twice
  :math:`M_{ab} + M_{ba} - M_{aa} - M_{bb} + 2 A_{ab} B'_{ab}`.
- *parts*: two assignments m and n differ at some nodes. With :math:`d_{ij} = A_{ij} (B_{n_i n_j} +
  B_{m_i m_j} - B_{n_i m_j} - B_{m_i n_j})`, the nodes i and j change together if that is not zero,
  or if one takes the partner that the other had. Gains of different parts add up, so each part is
  taken from the assignment that keeps more of it.

Source: percolation, Yartseva and Grossglauser, "On the performance of percolation graph matching",
2013; parts, Whitley, Hains and Howe, "Tunneling between optima: partition crossover for the
traveling salesman problem", GECCO 2009.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from .assignment import (
    BLOCK,
    PARTNERS,
    Assignment,
    Task,
    best_assignment,
    filled,
    kept_weight,
    pulled,
    sparse_rows,
)
from .confidence import pattern
from .soft import neighbor_scores, one_each

Array = NDArray[Any]

PERCOLATIONS = 6
SWEEPS = 50  # of swaps, at most
LEAST_GAIN = 1e-6  # of a swap
DENSE_SPEED = 64  # products of dense matrices in the time of one of sparse matrices

_ROUNDING = 1e-5  # of sums of weights, whose root mean square is one


def percolate(task: Task, start: Assignment) -> Assignment:
    """Assign by the matched neighbours of the step before, a few times; the best of all steps."""
    scored = max(PARTNERS, task.candidate.shape[1])
    best, last = start, start.partner
    for _ in range(PERCOLATIONS):
        column, score = neighbor_scores(task, one_each(last), scored)
        found = best_assignment(task, sparse_rows(column, score, task.target.shape[0]), last)
        if np.array_equal(found.partner, last):
            break
        last = found.partner
        best = max(best, found, key=lambda each: each.kept)
    return best


def swap(task: Task, start: Assignment) -> Assignment:
    """Swap partners of two nodes wherever that keeps more, until no swap does.

    Nodes without edges stand for those that would have the targets without a partner.
    """
    size = task.target.shape[0]
    entries = task.source.tocoo()
    source = coo_array((entries.data, entries.coords), (size, size)).tocsr()
    alone = np.full(size - len(start.partner), -1)
    partner = filled(np.concatenate([start.partner, alone]), size)
    rows, moved = np.arange(size), pulled(task.target, partner)
    for _ in range(SWEEPS):
        first, second, gain = swap_gains(source, moved, rows)
        if not first.size:
            break
        order = np.lexsort((second, first, -gain))
        has_moved = np.zeros(size, bool)
        for i, k in np.stack([first, second], 1)[order].tolist():
            if has_moved[i] or has_moved[k]:
                continue
            # Gains add up as long as no neighbour has moved in this sweep.
            around = [_row(each, node) for each in (source, moved) for node in (i, k)]
            if not has_moved[np.concatenate(around)].any():
                partner[i], partner[k] = partner[k], partner[i]
                has_moved[i] = has_moved[k] = True
        # Other gains are as they were, and none were above zero.
        before, moved = moved, pulled(task.target, partner)
        near = sum(each.astype(bool) @ has_moved.astype(int) for each in (source, before, moved))
        rows = np.unique(np.concatenate([np.flatnonzero(near + has_moved), first, second]))
    kept = float((source * moved).sum(dtype=np.float64))
    return Assignment(partner[: len(start.partner)], kept)


def swap_gains(source: csr_array, moved: csr_array, rows: Array) -> tuple[Array, Array, Array]:
    """Find swaps of some nodes [R] with any that share a matched neighbour, and gain by that.

    Pairs i < k, and half of what f gains: from M = A B' and its transpose, a few rows at a time.
    """
    size = len(source.indptr) - 1
    own = np.asarray((source * moved).sum(1))
    keys, gains = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
    products = source.astype(bool) @ np.diff(moved.indptr)
    products = (products + moved.astype(bool) @ np.diff(source.indptr))[rows]
    block = BLOCK
    blocks = np.split(rows, np.flatnonzero(np.diff(np.cumsum(products) // block)) + 1)
    if size**2 <= block and products.sum() > rows.size * size**2 / DENSE_SPEED:
        blocks, source, moved = [rows], source.toarray(), moved.toarray()
    for some in blocks:
        part, other = source[some], moved[some]
        both = coo_array(part @ moved + other @ source + 2 * (part * other))
        one, two = some[both.coords[0]], both.coords[1].astype(np.int64)
        gain = both.data - own[one] - own[two]
        is_better = (gain > LEAST_GAIN) & (one != two)
        keys.append((np.minimum(one, two) * size + np.maximum(one, two))[is_better])
        gains.append(gain[is_better])
    key, place = np.unique(np.concatenate(keys), return_index=True)
    first, second = np.divmod(key, size)
    return first, second, np.concatenate(gains)[place]


def _row(matrix: csr_array, node: int) -> Array:
    return matrix.indices[matrix.indptr[node] : matrix.indptr[node + 1]]


def best_parts(task: Task, first: Assignment, second: Assignment) -> Assignment:
    """Take each part from the assignment that keeps more there."""
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


def open_nodes(task: Task, partner: Array, confident: Array | None = None) -> Array:
    """Find nodes [R] that keep fewer edges than they and their partner have, and their neighbours.

    So are those that are not `confident` [N]. If there are none, as between graphs that differ in
    weights alone, all nodes are open.
    """
    first, second = pattern(task.source), pattern(task.target)
    kept = (first * pulled(second, partner)).sum(1)
    is_open = kept < np.minimum(np.diff(first.indptr), np.diff(second.indptr)[partner])
    is_open |= first @ is_open.astype(np.float32) > 0
    if confident is not None:
        is_open |= ~confident
    return np.flatnonzero(is_open) if is_open.any() else np.arange(len(partner))
