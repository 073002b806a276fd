r"""One partner for every node: assignments that keep as many edges as can be found.

An assignment m of N nodes to N of K keeps the edges

.. math::
    f(m) = \sum_{ij} A_{ij} B_{m_i m_j},

and where N = K and masses are equal, the discrepancy of its plan is a constant minus twice that.
Three moves find better ones, all on the CPU, in time and memory that grow with the edges:

- *percolation*: the score of a pair is how much of their neighbourhoods is matched, A P B; the best
  assignment of the largest scores comes next. It spreads from few right pairs to all, but goes by
  the neighbours of the step before.
- *swaps* of two partners, which repair what percolation cannot: nodes whose neighbours are nearly
  the same. With :math:`\mathbf{B}' = \mathbf{P} \mathbf{B} \mathbf{P}^T` and
  :math:`\mathbf{M} = \mathbf{A} \mathbf{B}'`, a swap of a and b gains twice
  :math:`M_{ab} + M_{ba} - M_{aa} - M_{bb} + 2 A_{ab} B'_{ab}`.
- *annealing*: the same scores with soft assignments, from warm to cold, which leaves dead ends.

To scores is added, for the nodes that look most alike, how much they do: a tenth of an edge at
most, which decides between equals.

Source: percolation, Yartseva and Grossglauser, "On the performance of percolation graph matching",
2013; soft assignments, Gold and Rangarajan, "A graduated assignment algorithm for graph matching",
IEEE PAMI 18, 1996.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from ...kernels.table import CANDIDATES
from ..factored.profiles import Comparable
from .nearest import find_nearest

Array = NDArray[Any]

_KEPT = 30  # partners of each node in a soft assignment
_PERCOLATIONS = 6  # steps
_LEAST_MASS = 1e-3  # of a pair that says something about its neighbours
_LEAST_GAIN = 1e-6  # of a swap
_STEPS = 2.0**10  # of the costs of assignments, to an edge
_BALANCING = 16
_LEAST_SUM = np.float32(1e-15)  # of a soft row
_SOFTNESS = 0.01  # edges: e times as likely
_SWAPPED = 1 << 24  # products of edges at a time
_FULL = 64  # products of dense matrices, in the time of one of sparse matrices
_SOFT = (2.0,) * 15  # inverse temperatures, per edge, of a start from features
_ANNEAL = tuple(np.geomspace(1, 6, 16))  # and from assignments


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


class Soft(NamedTuple):
    """A few partners of every node, each with a share of its mass."""

    column: Array  # [N, m] int32
    mass: Array  # [N, m] float32, about one in a row, and at most that in a column


def assignment_task(source: csr_array, target: csr_array, features: Comparable, seed: int) -> Task:
    """Two graphs with weights > 0, and their nearest nodes by features [N, F] and [K, F]."""
    return Task(in_unit(source), in_unit(target), *find_nearest(features, seed))


def neighbor_scores(task: Task, soft: Soft, kept: int) -> tuple[Array, Array]:
    """The best pairs by their matched neighbours, A M B, and by how much they look alike.

    Columns [N, kept] int32, -1 for none, and scores [N, kept] float32, the largest first.
    """
    kernel = CANDIDATES.find("auto", torch.device("cpu")).neighbor_scores
    mass = np.where(soft.mass < _LEAST_MASS, 0, soft.mass)
    return kernel(*task[:2], soft.column, mass, *task[2:], kept)


def in_unit(matrix: csr_array) -> csr_array:
    """Weights over their root mean square, in float32."""
    data = matrix.data / (np.abs(matrix.data).max(initial=0.0) or 1.0)
    data /= np.sqrt(np.square(data).sum() / max(1, len(data))) or 1.0
    return csr_array((data.astype(np.float32), matrix.indices, matrix.indptr), matrix.shape)


def kept_weight(task: Task, partner: Array) -> float:
    """f(m), in units of the root mean squares."""
    return float((task.source * pulled(task.target, partner)).sum(dtype=np.float64))


def pulled(matrix: csr_array, partner: Array, other: Array | None = None) -> csr_array:
    """The matrix P B P^T, with entries B[m_i, m_j]: the target's edges between the sources.

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
    """The sum of |A_ik - B_jl|^2 over nodes with partners [N], -1 for none; nothing cancels."""
    nodes = np.flatnonzero(partner >= 0)
    chosen = partner[nodes]
    difference = source[nodes][:, nodes] - target[chosen][:, chosen]
    return float(np.square(difference.data, dtype=np.float64).sum())


def greedy(task: Task) -> Assignment:
    """Pair the nodes that look most alike, none of them twice; those that are left, in order."""
    partner = greedy_assignment(task.candidate, task.bonus, task.target.shape[0])
    partner = filled(partner, task.target.shape[0])
    column = np.where(task.bonus > 0, task.candidate, -1)
    return _assigned(task, _sparse(column, 10 * task.bonus, task.target.shape[0]), partner)


def greedy_assignment(column: Array, value: Array, num_targets: int) -> Array:
    """Pair the largest values [N, m] above zero first: partners [N] out of `column`, -1 for none.

    In rounds: what is the largest that is left, both of its row and of its column, is taken.
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
    """Nodes that are left get partners that are left, in order, as far as there are any."""
    is_free = np.ones(num_targets, bool)
    is_free[partner[partner >= 0]] = False
    left, free = np.flatnonzero(partner < 0), np.flatnonzero(is_free)
    count = min(left.size, free.size)
    partner = partner.copy()
    partner[left[:count]] = free[:count]
    return partner


def percolate(task: Task, start: Assignment) -> Assignment:
    """Assign by the matched neighbours of the step before, a few times; the best of all steps."""
    scored = max(_KEPT, task.candidate.shape[1])
    best, last = start, start.partner
    for _ in range(_PERCOLATIONS):
        column, score = neighbor_scores(task, one_each(last), scored)
        found = _assigned(task, _sparse(column, score, task.target.shape[0]), last)
        if np.array_equal(found.partner, last):
            break
        last = found.partner
        best = max(best, found, key=lambda each: each.kept)
    return best


def swap(task: Task, start: Assignment, max_sweeps: int = 50) -> Assignment:
    """Swap partners of two nodes wherever that keeps more, until no swap does.

    Nodes without edges stand for those that would have the targets without a partner.
    """
    size = task.target.shape[0]
    entries = task.source.tocoo()
    source = coo_array((entries.data, entries.coords), (size, size)).tocsr()
    alone = np.full(size - len(start.partner), -1)
    partner = filled(np.concatenate([start.partner, alone]), size)
    rows, moved = np.arange(size), pulled(task.target, partner)
    for _ in range(max_sweeps):
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
        rows = _around(source, before, moved, has_moved)
        rows = np.unique(np.concatenate([rows, first, second]))
    kept = float((source * moved).sum(dtype=np.float64))
    return Assignment(partner[: len(start.partner)], kept)


def swap_gains(source: csr_array, moved: csr_array, rows: Array) -> tuple[Array, Array, Array]:
    """Swaps of some nodes [R] with any that share a matched neighbour, and gain by that.

    Pairs i < k, and half of what f gains: from M = A B' and its transpose, a few rows at a time.
    """
    size = len(source.indptr) - 1
    own = np.asarray((source * moved).sum(1))
    keys, gains = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
    products = _count_products(source, moved)[rows]
    blocks = np.split(rows, np.flatnonzero(np.diff(np.cumsum(products) // _SWAPPED)) + 1)
    if size**2 <= _SWAPPED and products.sum() > rows.size * size**2 / _FULL:
        blocks, source, moved = [rows], source.toarray(), moved.toarray()
    for block in blocks:
        part, other = source[block], moved[block]
        both = coo_array(part @ moved + other @ source + 2 * (part * other))
        one, two = block[both.coords[0]], both.coords[1].astype(np.int64)
        gain = both.data - own[one] - own[two]
        is_better = (gain > _LEAST_GAIN) & (one != two)
        keys.append((np.minimum(one, two) * size + np.maximum(one, two))[is_better])
        gains.append(gain[is_better])
    key, place = np.unique(np.concatenate(keys), return_index=True)
    first, second = np.divmod(key, size)
    return first, second, np.concatenate(gains)[place]


def _count_products(source: csr_array, moved: csr_array) -> Array:
    """The products [N] that each row of A B' and B' A sums up."""
    products = np.zeros(len(source.indptr), np.int64)
    for one, other in ((source, moved), (moved, source)):
        width = np.concatenate([[0], np.cumsum(np.diff(other.indptr)[one.indices])])
        products += width[one.indptr]
    return np.diff(products)


def _around(source: csr_array, before: csr_array, after: csr_array, is_in: Array) -> Array:
    """Nodes that are in a set [N], or neighbours of it in one of the graphs."""
    near = is_in + sum(each.astype(bool) @ is_in.astype(int) for each in (source, before, after))
    return np.flatnonzero(near)


def _row(matrix: csr_array, node: int) -> Array:
    return matrix.indices[matrix.indptr[node] : matrix.indptr[node + 1]]


def anneal(
    task: Task, *starts: Assignment, believed: Array | None = None, rows: Array | None = None
) -> Assignment:
    """Soft assignments from the mean of some assignments, from warm to cold.

    Where two assignments are each right in a part of the graph, the neighbours of a node decide
    between them, and both parts come through. In the beginning, only nodes count that are
    `believed` [N]. Nodes beside `rows` [R] keep their partners of the first assignment.
    """
    soft = one_each(*(each.partner for each in starts))
    if believed is not None:
        soft = Soft(soft.column, soft.mass * believed[:, None].astype(np.float32))
    return harden(task, _soften(task, soft, _ANNEAL, rows), starts[0].partner)


def soft_start(task: Task) -> Assignment:
    """Soft assignments from the nodes that look most alike, at one temperature."""
    likely = np.exp((task.bonus - task.bonus[:, :1]) / np.float32(_SOFTNESS))
    soft = balanced(task.candidate, likely, task.target.shape[0])
    start = filled(np.full(len(likely), -1), task.target.shape[0])
    return harden(task, _soften(task, soft, _SOFT), start)


def one_each(*partners: Array) -> Soft:
    """The mean of some assignments [N], in which -1 is none."""
    column = np.stack(partners, 1).astype(np.int32)
    share = (column >= 0) * np.float32(1 / len(partners))
    return Soft(np.maximum(column, 0), share)


def _soften(task: Task, soft: Soft, colds: tuple[float, ...], rows: Array | None = None) -> Soft:
    """Soft assignments by the scores that the one before gives, for some rows [R], or for all."""
    size = len(soft.column)
    rows = np.arange(size) if rows is None else rows
    part = Task(task.source[rows], task.target, task.candidate[rows], task.bonus[rows])
    column, likely = np.full((size, _KEPT), -1, np.int32), np.zeros((size, _KEPT), np.float32)
    column[:, 0], likely[:, 0] = soft.column[:, 0], 1
    for cold in colds:
        column[rows], score = neighbor_scores(part, soft, _KEPT)
        likely[rows] = np.exp(np.float32(cold) * (score - score[:, :1]))
        soft = balanced(column, likely, task.target.shape[0])
    return soft


def balanced(column: Array, value: Array, num_targets: int, unmatched: Any = 0.0) -> Soft:
    """Scale each row and its chance of no partner, `unmatched` [N], to a sum of one.

    Columns are scaled to sums of one at most. Entries of column -1 have no mass.
    """
    matrix = _sparse(column, value, num_targets)
    left, right = balancing(matrix, _LEAST_SUM, np.float32(1), unmatched, _BALANCING)
    return Soft(np.maximum(column, 0), (column >= 0) * value * left[:, None] * right[column])


def balancing(
    matrix: csr_array, least: Any, full: Any, unmatched: Any = 0.0, steps: int = 10
) -> tuple[Array, Array]:
    """Factors of rows and columns, with which rows have sums of nearly one, columns nearer.

    Args:
        matrix: [N, K], entries >= 0.
        least: a smaller sum of a row counts as this one.
        full: columns with smaller sums keep them.
        unmatched: [N] what else is in the sum of a row.
        steps: scalings of both.
    """
    transposed = matrix.T
    right = np.ones(matrix.shape[1], matrix.dtype)
    for _ in range(steps):
        left = 1 / np.maximum(matrix @ right + unmatched, least)
        right = 1 / np.maximum(transposed @ left, full)
    return left, right


def harden(task: Task, soft: Soft | csr_array, fallback: Array) -> Assignment:
    """The assignment of the likeliest pairs; of those of `fallback` [N], where there is none."""
    likely = soft
    if isinstance(soft, Soft):
        column = np.where(soft.mass > 0, soft.column, -1)
        likely = _sparse(column, soft.mass, task.target.shape[0])
    return _assigned(task, 10 * likely, fallback)


def _sparse(column: Array, value: Array, num_targets: int) -> csr_array:
    """The matrix [N, K] of tables [N, m], in which a column of -1 is none."""
    there = column >= 0
    indptr = np.concatenate([[0], np.cumsum(there.sum(1))])
    return csr_array((value[there], column[there], indptr), (len(column), num_targets))


def _assigned(task: Task, score: csr_array, fallback: Array) -> Assignment:
    """The assignment of the largest sum of scores [N, K], among its entries and `fallback` [N].

    No entry may stand twice, for its costs would be added.
    """
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
