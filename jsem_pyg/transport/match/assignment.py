r"""Assignments: one partner for every node, and the edges that they keep.

An assignment m of N nodes to N of K keeps the edges

.. math::
    f(m) = \sum_{ij} A_{ij} B_{m_i m_j}.

Where N = K the discrepancy of its plan is a constant minus twice that.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from ..profiles import Comparable
from .likeness import find_nearest

Array = NDArray[Any]

PARTNERS = 30  # the same in the last one, and in annealing
BLOCK = 1 << 24  # products of edges at a time

_STEPS = 2.0**10  # of the costs of assignments, to an edge


class Task(NamedTuple):
    """Two weighted graphs of N <= K nodes, and which nodes look most alike."""

    source: csr_array  # [N, N] A, symmetric; weights in units of their root mean square
    target: csr_array  # [K, K] B
    candidate: Array  # [N, C] int32: nodes of the target that look most alike, nearest first
    bonus: Array  # [N, C] float32: how much, in edges


class Assignment(NamedTuple):
    """A partner for every node of the source."""

    partner: Array  # [N] of K, no two alike
    kept: float  # f(m)


def make_task(source: csr_array, target: csr_array, features: Comparable, seed: int) -> Task:
    """Join two graphs with weights > 0 and their nearest nodes by features [N, F] and [K, F]."""
    return Task(in_unit(source), in_unit(target), *find_nearest(features, seed))


def in_unit(matrix: csr_array) -> csr_array:
    """Divide weights by their root mean square, in float32."""
    data = matrix.data / (np.sqrt(np.square(matrix.data).sum() / max(1, matrix.nnz)) or 1.0)
    return csr_array((data.astype(np.float32), matrix.indices, matrix.indptr), matrix.shape)


def kept_weight(task: Task, partner: Array) -> float:
    """Compute f(m), in units of the root mean squares."""
    return float((task.source * pulled(task.target, partner)).sum(dtype=np.float64))


def pulled(matrix: csr_array, partner: Array, other: Array | None = None) -> csr_array:
    """Renumber the target's edges by the sources: return P B P^T with entries B[m_i, m_j].

    With partners by `other` [N], entries are B[m_i, n_j].
    """
    size = len(partner)
    place = np.full((2, matrix.shape[0]), -1)
    place[0, partner] = place[1, partner if other is None else other] = np.arange(size)
    entries = matrix.tocoo()
    row, column = (each[ends] for each, ends in zip(place, entries.coords, strict=True))
    both = (row >= 0) & (column >= 0)
    return coo_array((entries.data[both], (row[both], column[both])), (size, size)).tocsr()


def matched_difference(source: csr_array, target: csr_array, partner: Array) -> float:
    """Sum |A_ik - B_jl|^2 over nodes with partners [N], -1 for none; nothing cancels."""
    nodes = np.flatnonzero(partner >= 0)
    chosen = partner[nodes]
    difference = source[nodes][:, nodes] - target[chosen][:, chosen]
    return float(np.square(difference.data, dtype=np.float64).sum())


def greedy(task: Task) -> Assignment:
    """Pair the nodes that look most alike, none of them twice; those that are left, in order."""
    partner = greedy_partners(task.candidate, task.bonus, task.target.shape[0])
    partner = filled(partner, task.target.shape[0])
    column = np.where(task.bonus > 0, task.candidate, -1)
    return best_assignment(task, sparse_rows(column, task.bonus, task.target.shape[0]), partner)


def greedy_partners(column: Array, value: Array, num_targets: int) -> Array:
    """Pair the largest values [N, m] above zero first: partners [N] out of `column`, -1 for none.

    In rounds: the largest value that is left, both of its row and of its column, is taken.
    """
    partner = np.full(len(column), -1)
    entry = np.flatnonzero(value.reshape(-1) > 0)
    entry = entry[np.argsort(-value.reshape(-1)[entry], kind="stable")]
    row, column = entry // value.shape[1], column.reshape(-1)[entry]
    while row.size:
        first_of_row, first_of_column = np.zeros(len(partner), int), np.zeros(num_targets, int)
        order = np.arange(row.size)
        first_of_row[row[::-1]], first_of_column[column[::-1]] = order[::-1], order[::-1]
        is_top = (first_of_row[row] == order) & (first_of_column[column] == order)
        partner[row[is_top]] = column[is_top]
        is_taken = np.zeros(num_targets, bool)
        is_taken[column[is_top]] = True
        is_left = (partner[row] < 0) & ~is_taken[column]
        row, column = row[is_left], column[is_left]
    return partner


def filled(partner: Array, num_targets: int) -> Array:
    """Give nodes that are left the partners that are left, in order, as far as there are any."""
    is_free = np.ones(num_targets, bool)
    is_free[partner[partner >= 0]] = False
    left, free = np.flatnonzero(partner < 0), np.flatnonzero(is_free)
    count = min(left.size, free.size)
    partner = partner.copy()
    partner[left[:count]] = free[:count]
    return partner


def best_assignment(task: Task, likely: csr_array, fallback: Array) -> Assignment:
    """Find the assignment of the largest sum of scores [N, K], with `fallback` [N] at zero.

    No entry may stand twice, for its costs would be added.
    """
    score = 10 * likely
    node = np.arange(len(fallback)).repeat(np.diff(score.indptr))
    is_new = np.ones(len(fallback), bool)
    is_new[node[score.indices == fallback[node]]] = False
    end = score.indptr[1:][is_new]
    column, value = np.insert(score.indices, end, fallback[is_new]), np.insert(score.data, end, 0)
    indptr = score.indptr + np.concatenate([[0], np.cumsum(is_new)])
    # Costs have to be positive, since SciPy takes a stored zero for no edge; and multiples of a
    # power of two, whose sums and differences are exact: rounding lets its search run in circles,
    # a hundred times as long.
    cost = np.rint((value.max() - value.astype(float)) * _STEPS) / _STEPS + 1
    graph = csr_array((cost, column.astype(np.int32), indptr.astype(np.int32)), score.shape)
    partner = min_weight_full_bipartite_matching(graph)[1].astype(np.int64)
    return Assignment(partner, kept_weight(task, partner))


def sparse_rows(column: Array, value: Array, num_targets: int) -> csr_array:
    """Make the matrix [N, K] of tables [N, m]; a column of -1 is none."""
    there = column >= 0
    indptr = np.concatenate([[0], np.cumsum(there.sum(1))])
    return csr_array((value[there], column[there], indptr), (len(column), num_targets))
