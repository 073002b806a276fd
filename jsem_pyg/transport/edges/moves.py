r"""One partner for every node: assignments that keep as many edges as can be found.

Between two graphs of N nodes and equal masses, a plan that is a permutation m keeps the edges

.. math::
    f(m) = \sum_{ij} A_{ij} B_{m_i m_j},

and its discrepancy is a constant minus twice that. Three moves find better ones, each in time
proportional to the edges, all on the CPU:

- *percolation*: the score of a pair is how much of their neighbourhoods is matched, A P B; the best
  assignment of these scores comes next. It spreads from few right pairs to all, but goes by the
  neighbours of the step before.
- *swaps* of two partners, which repair what percolation cannot: nodes whose neighbours are nearly
  the same. With :math:`\mathbf{B}' = \mathbf{P} \mathbf{B} \mathbf{P}^T` and
  :math:`\mathbf{M} = \mathbf{A} \mathbf{B}'`, a swap of a and b gains twice
  :math:`M_{ab} + M_{ba} - M_{aa} - M_{bb} + 2 A_{ab} B'_{ab}`.
- *annealing*: the same scores with soft assignments, from warm to cold, which leaves dead ends.

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
from torch import Tensor

Array = NDArray[Any]

CANDIDATES = 40  # partners of each node that features suggest
_KEPT = 20  # partners of each node in a soft assignment
_PATIENCE = 8  # steps of percolation without a better one
_LEAST_SUM = np.float32(1e-15)  # of a soft row
_LEAST_GAIN = 1e-6  # of a swap
_STEPS = 2.0**10  # of the costs of assignments, to an edge
_TIE = 0.1  # what the mean distance of features counts, in edges
_SOFT = (2.0,) * 15  # inverse temperatures, per edge, of a start from features
_ANNEAL = tuple(np.geomspace(1, 6, 16))  # and from assignments


class Task(NamedTuple):
    """Two weighted graphs of N nodes, and how little nodes look alike."""

    source: csr_array  # [N, N] A, symmetric; weights in units of their root mean square
    target: csr_array  # [N, N] B
    distance: Tensor  # [N, N] float32, of features: zero where alike, with mean `_TIE`
    closest: Array  # [N, C] nodes that look most alike, nearest first
    sizes: tuple[int, int]  # nodes of both graphs; N is the larger, and nodes without edges fill up


class Assignment(NamedTuple):
    """A partner for every node."""

    partner: Array  # [N] a permutation
    kept: float  # f(m)


def assignment_task(
    source: csr_array, target: csr_array, distance: Tensor, sizes: tuple[int, int]
) -> Task:
    """Bring weights and distances [N, N] (float32, scaled in place) to the scale of one edge."""
    mean = float(distance.mean(dtype=torch.float64)) if distance.numel() else 0.0
    distance = distance.mul_(_TIE / mean) if mean > 0 else distance.zero_()
    closest = distance.topk(min(CANDIDATES, len(distance)), dim=1, largest=False).indices.numpy()
    return Task(in_unit(source), in_unit(target), distance, closest, sizes)


def in_unit(matrix: csr_array) -> csr_array:
    """Weights over their root mean square, in float32."""
    data = matrix.data / (np.abs(matrix.data).max(initial=0.0) or 1.0)
    data /= np.sqrt(np.square(data).sum() / max(1, len(data))) or 1.0
    return csr_array((data.astype(np.float32), matrix.indices, matrix.indptr), matrix.shape)


def kept_weight(task: Task, partner: Array) -> float:
    """f(m), in units of the root mean squares."""
    return float((task.source * pulled(task.target, partner)).sum(dtype=np.float64))


def pulled(matrix: csr_array, partner: Array) -> csr_array:
    """The matrix P B P^T, with entries B[m_i, m_j]: the target's edges between the sources."""
    place = np.empty_like(partner)
    place[partner] = np.arange(len(partner))
    entries = matrix.tocoo()
    row, column = (place[each] for each in entries.coords)
    return coo_array((entries.data, (row, column)), matrix.shape).tocsr()


def matched_difference(source: csr_array, target: csr_array, partner: Array) -> float:
    """The sum of |A_ik - B_jl|^2 over nodes with partners [N], -1 for none; nothing cancels."""
    nodes = np.flatnonzero(partner >= 0)
    chosen = partner[nodes]
    difference = source[nodes][:, nodes] - target[chosen][:, chosen]
    return float(np.square(difference.data, dtype=np.float64).sum())


def greedy(task: Task) -> Assignment:
    """Pair the most alike nodes first, then the nodes that are left, in order."""
    size = len(task.distance)
    distance = task.distance.numpy().astype(float)[np.arange(size)[:, None], task.closest]
    value = 1 + distance.max(initial=0.0) - distance
    partner = filled(greedy_assignment(task.closest, value, size), size)
    nothing = coo_array(task.source.shape, dtype=np.float32)
    alike = _assign(task._replace(distance=task.distance * (1 / _TIE)), nothing, partner)
    return Assignment(alike, kept_weight(task, alike))


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


def percolate(task: Task, start: Assignment, max_steps: int = 40) -> Assignment:
    """Assign by the matched neighbours of the step before, over and over; the best of all steps."""
    best, partner, since = start, start.partner, 0
    for _ in range(max_steps):
        scores = task.source @ _selection(partner) @ task.target
        following = _assign(task, scores.tocoo(), partner)
        if np.array_equal(following, partner):
            break
        partner = following
        kept = kept_weight(task, partner)
        since = 0 if kept > best.kept else since + 1
        best = max(best, Assignment(partner, kept), key=lambda each: each.kept)
        if since == _PATIENCE:
            break
    return best


def swap(task: Task, start: Assignment, max_sweeps: int = 50) -> Assignment:
    """Swap partners of two nodes wherever that keeps more, until no swap does."""
    partner = start.partner.copy()
    for _ in range(max_sweeps):
        moved = pulled(task.target, partner)
        first, second, gain = swap_gains(task.source, moved)
        improves = (gain > _LEAST_GAIN) & (first < second)
        if not improves.any():
            break
        order = np.lexsort((second[improves], first[improves], -gain[improves]))
        has_moved = np.zeros(len(partner), bool)
        for i, k in np.stack([first, second], 1)[improves][order].tolist():
            if has_moved[i] or has_moved[k]:
                continue
            # Gains add up as long as no neighbour has moved in this sweep.
            around = [_row(each, node) for each in (task.source, moved) for node in (i, k)]
            if not has_moved[np.concatenate(around)].any():
                partner[i], partner[k] = partner[k], partner[i]
                has_moved[i] = has_moved[k] = True
    return Assignment(partner, kept_weight(task, partner))


def swap_gains(source: csr_array, moved: csr_array) -> tuple[Array, Array, Array]:
    """Half of what f gains by swaps of nodes that share a matched neighbour: pairs and gains."""
    product = (source @ moved).tocsr()
    both = (product + product.T + 2 * (source * moved)).tocoo()
    own = product.diagonal()
    first, second = both.coords
    return first, second, both.data - own[first] - own[second]


def _row(matrix: csr_array, node: int) -> Array:
    return matrix.indices[matrix.indptr[node] : matrix.indptr[node + 1]]


def anneal(task: Task, *starts: Assignment, believed: Array | None = None) -> Assignment:
    """Soft assignments from the mean of some assignments, from warm to cold.

    Where two assignments are each right in a part of the graph, the neighbours of a node decide
    between them, and both parts come through. In the beginning, only nodes count that are
    `believed` [N].
    """
    soft = sum((_selection(each.partner) for each in starts[1:]), _selection(starts[0].partner))
    share = np.full(len(task.distance), 1 / len(starts), np.float32)
    soft = soft.multiply((share if believed is None else share * believed)[:, None]).tocsr()
    return harden(task, _soften(task, soft, _ANNEAL), starts[0].partner)


def soft_start(task: Task) -> Assignment:
    """Soft assignments from the nodes that look most alike, at one temperature."""
    size = len(task.distance)
    column = torch.from_numpy(task.closest)
    distance = task.distance.gather(1, column)
    # Closer by a tenth of the mean: e times as likely.
    likely = _balanced(((distance[:, :1] - distance) / (0.1 * _TIE)).exp(), column)
    return harden(task, _soften(task, likely, _SOFT), np.arange(size))


def _soften(task: Task, soft: csr_array, colds: tuple[float, ...]) -> csr_array:
    """Soft assignments [N, N] by the scores that the one before gives, a few entries a row."""
    for cold in colds:
        scores = torch.from_numpy(task.source @ (soft @ task.target).toarray())
        value, column = (scores - task.distance).topk(min(_KEPT, len(scores)), dim=1)
        soft = _balanced((cold * (value - value[:, :1])).exp(), column)
    return soft


def _balanced(value: Tensor, column: Tensor) -> csr_array:
    """Scale rows and columns of a sparse matrix, k entries a row, towards sums of one."""
    size, count = value.shape
    entries = (value.numpy().reshape(-1), column.numpy().reshape(-1), np.arange(size + 1) * count)
    matrix = csr_array(entries, (size, size))
    # The product of the largest of both has to be a number in float32.
    left, right = balancing(matrix, _LEAST_SUM)
    matrix.data *= np.repeat(left, count) * right[matrix.indices]
    return matrix


def balancing(matrix: csr_array, least: Any, steps: int = 10) -> tuple[Array, Array]:
    """Factors of rows and columns [N] with which both have sums of nearly one, columns nearer."""
    transposed = matrix.T.tocsr()
    right = np.ones(matrix.shape[1], matrix.dtype)
    for _ in range(steps):
        left = 1 / np.maximum(matrix @ right, least)
        right = 1 / np.maximum(transposed @ left, least)
    return left, right


def harden(task: Task, soft: csr_array, fallback: Array) -> Assignment:
    """The assignment of the likeliest pairs."""
    likely = soft.tocoo()
    scores = coo_array((likely.data * 10, likely.coords), likely.shape)
    partner = _assign(task, scores, fallback)
    return Assignment(partner, kept_weight(task, partner))


def _selection(partner: Array) -> csr_array:
    """The permutation matrix P, one in the column m_i of row i."""
    size = len(partner)
    ones = np.ones(size, np.float32)
    return csr_array((ones, partner, np.arange(size + 1)), (size, size))


def _assign(task: Task, scores: coo_array, fallback: Array) -> Array:
    """The best assignment by scores less distances, among scored, similar and present pairs."""
    size, count = task.closest.shape
    node = np.arange(size)
    row = np.concatenate([scores.coords[0], np.repeat(node, count), node])
    column = np.concatenate([scores.coords[1], task.closest.reshape(-1), fallback])
    value = np.zeros(len(row))
    value[: scores.nnz] = scores.data
    if task.sizes[0] != task.sizes[1]:
        # Nodes that fill up look all the same: their search for partners would take most of the
        # time, and any that are left will do.
        is_real = (row < task.sizes[0]) & (column < task.sizes[1])
        row, column, value = row[is_real], column[is_real], value[is_real]
    sums = coo_array((value, (row, column)), task.sizes).tocsr()
    row = np.repeat(np.arange(task.sizes[0]), np.diff(sums.indptr))
    cost = task.distance.numpy()[row, sums.indices] - sums.data
    # Costs have to be positive, since SciPy takes a stored zero for no edge; and multiples of a
    # power of two, whose sums and differences are exact: rounding lets its search run in circles,
    # a hundred times as long.
    cost = np.rint((cost - cost.min()) * _STEPS) / _STEPS + 1
    indices, indptr = sums.indices.astype(np.int32), sums.indptr.astype(np.int32)
    graph = csr_array((cost, indices, indptr), task.sizes)
    rows, columns = min_weight_full_bipartite_matching(graph)
    partner = np.full(size, -1)
    partner[rows] = columns
    return filled(partner, size)
