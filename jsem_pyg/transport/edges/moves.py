r"""One partner for every node: assignments that keep as many edges as can be found.

Between two graphs of N nodes and equal masses, a plan that is a permutation m keeps the edges

.. math::
    f(m) = \sum_{ij} A_{ij} B_{m_i m_j},

and its discrepancy is a constant minus twice that. Three moves find better ones, each in time
proportional to the edges, all on the CPU:

- *percolation*: the score of a pair is how much of their neighbourhoods is matched, A P B; the best
  assignment of these scores comes next. It spreads from few right pairs to all, but goes by the
  neighbours of the step before.
- *swaps* of two partners (:mod:`jsem_pyg.transport.problem.swaps`), which repair what percolation
  cannot: nodes whose neighbours are nearly the same.
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

from ..problem.swaps import pulled, swap_partners

Array = NDArray[Any]

CANDIDATES = 40  # partners of each node that features suggest
_KEPT = 20  # partners of each node in a soft assignment
_PATIENCE = 8  # steps of percolation without a better one
_LEAST_SUM = np.float32(1e-15)  # of a soft row
_STEPS = 2.0**10  # of the costs of assignments, to an edge
_TIE = 0.1  # what the mean distance of features counts, in edges
_SOFT = (2.0,) * 15  # inverse temperatures, per edge, of a start from features
_ANNEAL = tuple(np.geomspace(1, 6, 16))  # and from assignments


class Task(NamedTuple):
    """Two weighted graphs of N nodes, and how little nodes look alike."""

    source: csr_array  # [N, N] A, symmetric; weights in units of their root mean square
    target: csr_array  # [N, N] B
    distance: Tensor  # [N, N] float32, of features: zero where alike, with mean `_TIE`
    rows: Array  # [M] pairs of nodes that look most alike
    columns: Array  # [M]


class Assignment(NamedTuple):
    """A partner for every node."""

    partner: Array  # [N] a permutation
    kept: float  # f(m)


def assignment_task(source: csr_array, target: csr_array, distance: Tensor) -> Task:
    """Bring weights and distances [N, N] (float32, scaled in place) to the scale of one edge."""
    mean = float(distance.mean(dtype=torch.float64)) if distance.numel() else 0.0
    distance = distance.mul_(_TIE / mean) if mean > 0 else distance.zero_()
    count = min(CANDIDATES, distance.size(1))
    closest = distance.topk(count, dim=1, largest=False).indices.numpy()
    rows = np.repeat(np.arange(distance.size(0)), count)
    return Task(_unit(source), _unit(target), distance, rows, closest.reshape(-1))


def kept_weight(task: Task, partner: Array) -> float:
    """f(m), in units of the root mean squares."""
    return float((task.source * pulled(task.target, partner)).sum(dtype=np.float64))


def greedy(task: Task) -> Assignment:
    """Pair the most alike nodes first, then the nodes that are left, in order."""
    size = len(task.distance)
    partner, is_taken = np.full(size, -1), np.zeros(size, bool)
    by_distance = np.argsort(task.distance.numpy()[task.rows, task.columns], kind="stable")
    for i, j in np.stack([task.rows, task.columns], 1)[by_distance].tolist():
        if partner[i] < 0 and not is_taken[j]:
            partner[i], is_taken[j] = j, True
    partner[partner < 0] = np.flatnonzero(~is_taken)
    nothing = coo_array(task.source.shape, dtype=np.float32)
    alike = _assign(task._replace(distance=task.distance * (1 / _TIE)), nothing, partner)
    return Assignment(alike, kept_weight(task, alike))


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


def swap(task: Task, start: Assignment) -> Assignment:
    """Swap partners of two nodes wherever that keeps more, until no swap does."""
    partner = swap_partners(task.source, task.target, start.partner)
    return Assignment(partner, kept_weight(task, partner))


def anneal(task: Task, *starts: Assignment, believed: Array | None = None) -> Assignment:
    """Soft assignments from the mean of some assignments, from warm to cold.

    Where two assignments are each right in a part of the graph, the neighbours of a node decide
    between them, and both parts come through.

    Args:
        task: the graphs.
        starts: where to begin.
        believed: [N] bool, nodes whose partners count in the beginning; None: all.
    """
    soft = sum((_selection(each.partner) for each in starts[1:]), _selection(starts[0].partner))
    share = np.full(len(task.distance), 1 / len(starts), np.float32)
    soft = soft.multiply((share if believed is None else share * believed)[:, None]).tocsr()
    return harden(task, _soften(task, soft, _ANNEAL), starts[0].partner)


def soft_start(task: Task) -> Assignment:
    """Soft assignments from the features, at one temperature."""
    soft = _soften(task, _likely(task), _SOFT)
    return harden(task, soft, np.arange(len(task.distance)))


def _soften(task: Task, soft: csr_array, colds: tuple[float, ...]) -> csr_array:
    """Soft assignments [N, N] by the scores that the one before gives, a few entries a row."""
    for cold in colds:
        scores = torch.from_numpy(task.source @ (soft @ task.target).toarray())
        value, column = (scores - task.distance).topk(min(_KEPT, len(scores)), dim=1)
        soft = _balanced((cold * (value - value[:, :1])).exp(), column)
    return soft


def harden(task: Task, soft: csr_array, fallback: Array) -> Assignment:
    """The assignment of the likeliest pairs."""
    likely = soft.tocoo()
    scores = coo_array((likely.data * 10, likely.coords), likely.shape)
    partner = _assign(task, scores, fallback)
    return Assignment(partner, kept_weight(task, partner))


def _unit(matrix: csr_array) -> csr_array:
    """Weights over their root mean square, in float32."""
    largest = np.abs(matrix.data).max(initial=0.0)
    if largest == 0:
        return matrix.astype(np.float32)
    data = matrix.data / largest
    data /= np.sqrt(np.mean(data**2))
    return csr_array((data.astype(np.float32), matrix.indices, matrix.indptr), matrix.shape)


def _selection(partner: Array) -> csr_array:
    """The permutation matrix P, one in the column m_i of row i."""
    size = len(partner)
    ones = np.ones(size, np.float32)
    return csr_array((ones, partner, np.arange(size + 1)), (size, size))


def _assign(task: Task, scores: coo_array, fallback: Array) -> Array:
    """The best assignment by scores less distances, among scored, similar and present pairs."""
    size = len(fallback)
    row = np.concatenate([scores.coords[0], task.rows, np.arange(size)])
    column = np.concatenate([scores.coords[1], task.columns, fallback])
    value = np.zeros(len(row))
    value[: scores.nnz] = scores.data
    sums = coo_array((value, (row, column)), (size, size)).tocsr()
    row = np.repeat(np.arange(size), np.diff(sums.indptr))
    cost = task.distance.numpy()[row, sums.indices] - sums.data
    # Costs have to be positive, since SciPy takes a stored zero for no edge; and multiples of a
    # power of two, whose sums and differences are exact: rounding lets its search run in circles,
    # a hundred times as long.
    cost = np.rint((cost - cost.min()) * _STEPS) / _STEPS + 1
    indices, indptr = sums.indices.astype(np.int32), sums.indptr.astype(np.int32)
    graph = csr_array((cost, indices, indptr), (size, size))
    rows, columns = min_weight_full_bipartite_matching(graph)
    partner = np.empty(size, np.int64)
    partner[rows] = columns
    return partner


def _likely(task: Task) -> csr_array:
    """A soft assignment to the nodes that look most alike, closer by a tenth of the mean: e."""
    size = len(task.distance)
    column = torch.from_numpy(task.columns).view(size, -1)
    distance = task.distance.gather(1, column)
    return _balanced(((distance[:, :1] - distance) / (0.1 * _TIE)).exp(), column)


def _balanced(value: Tensor, column: Tensor, steps: int = 10) -> csr_array:
    """Scale rows and columns of a sparse matrix, k entries a row, towards sums of one."""
    size, count = value.shape
    entries = (value.numpy().reshape(-1), column.numpy().reshape(-1), np.arange(size + 1) * count)
    matrix = csr_array(entries, (size, size))
    transposed = matrix.T.tocsr()
    right = np.ones(size, np.float32)
    for _ in range(steps):
        # The product of the largest of both has to be a number in float32.
        left = 1 / np.maximum(matrix @ right, _LEAST_SUM)
        right = 1 / np.maximum(transposed @ left, _LEAST_SUM)
    matrix.data *= np.repeat(left, count) * right[matrix.indices]
    return matrix
