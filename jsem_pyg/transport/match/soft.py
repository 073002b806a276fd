r"""Soft assignments: a few partners of every node, and the scores that follow from them.

The score of a pair is how much of their neighbourhoods is matched, A M B, for a soft assignment M.
To scores is added, for the nodes that look most alike, how much they do: a tenth of an edge at
most, which decides between equals.

Source: Gold and Rangarajan, "A graduated assignment algorithm for graph matching", IEEE PAMI 18,
1996.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .assignment import PARTNERS, Assignment, Task, best_assignment, filled, sparse_rows

Array = NDArray[Any]

START_TEMPERATURE = 0.01  # the same, of later starts from features
COLD = 2.0  # inverse temperature, per edge
LEAST_MASS = 1e-3  # of a pair that says something about its neighbours
SOFT_STEPS = 15  # at the temperature `cold`, from features
ANNEAL = (1.0, 6.0, 16)  # inverse temperatures: first, last, number
BALANCING = 16  # scalings of a soft assignment

_LEAST_SUM = np.float32(1e-15)  # of a soft row
_TINY = 1e-300  # of sums in float64


class Soft(NamedTuple):
    """A few partners of every node, and their shares of its mass."""

    column: Array  # [N, m] int32
    mass: Array  # [N, m] float32, about one in a row, and at most that in a column


def one_each(*partners: Array) -> Soft:
    """Take the mean of some assignments [N]; -1 is none."""
    column = np.stack(partners, 1).astype(np.int32)
    share = (column >= 0) * np.float32(1 / len(partners))
    return Soft(np.maximum(column, 0), share)


def neighbor_scores(task: Task, soft: Soft, kept: int) -> tuple[Array, Array]:
    """Find the best pairs by their matched neighbours, A M B, and by how much they look alike.

    Columns [N, kept] int32, -1 for none, and scores [N, kept] float32, the largest first.
    """
    from ...kernels.candidates.numba_cpu import neighbor_scores  # numba loads slowly

    mass = np.where(soft.mass < LEAST_MASS, 0, soft.mass)
    return neighbor_scores(*task[:2], soft.column, mass, *task[2:], kept)


def from_likeness(task: Task, temperature: float) -> Soft:
    """Make the soft assignment of the nodes that look most alike."""
    likely = np.exp((task.bonus - task.bonus[:, :1]) / np.float32(temperature))
    return balanced(task.candidate, likely, task.target.shape[0])


def balanced(column: Array, value: Array, num_targets: int, unmatched: Any = 0.0) -> Soft:
    """Scale each row and its chance of no partner, `unmatched` [N], to a sum of one.

    Columns are scaled to sums of one at most. Entries of column -1 have no mass.
    """
    matrix = sparse_rows(column, value, num_targets)
    left, right = balancing(matrix, _LEAST_SUM, np.float32(1), unmatched)
    return Soft(np.maximum(column, 0), (column >= 0) * value * left[:, None] * right[column])


def balancing(
    matrix: csr_array, least: Any, full: Any, unmatched: Any = 0.0
) -> tuple[Array, Array]:
    """Find factors that bring the sums of rows near one, and the sums of columns nearer.

    Args:
        matrix: [N, K], entries >= 0.
        least: a smaller sum of a row counts as this one.
        full: columns with smaller sums keep them.
        unmatched: [N] what else is in the sum of a row.
    """
    transposed = matrix.T
    right = np.ones(matrix.shape[1], matrix.dtype)
    for _ in range(BALANCING):
        left = 1 / np.maximum(matrix @ right + unmatched, least)
        right = 1 / np.maximum(transposed @ left, full)
    return left, right


def shares_of(score: csr_array) -> csr_array:
    """Scale scores [N, K] > 0 to sums of rows of one, and sums of columns of one at most."""
    _, right = balancing(score, _TINY, _TINY)
    left = 1 / np.maximum(score @ right, _TINY)
    row = np.repeat(np.arange(len(left)), np.diff(score.indptr))
    data = left[row] * score.data * right[score.indices]
    # If two nodes have no partner but the same one, columns keep sums above one.
    data /= np.maximum(np.bincount(score.indices, data, score.shape[1]), 1)[score.indices]
    return csr_array((data, score.indices, score.indptr), score.shape)


def harden(task: Task, soft: Soft, fallback: Array) -> Assignment:
    """Assign the likeliest pairs; a node without any gets its partner of `fallback` [N]."""
    column = np.where(soft.mass > 0, soft.column, -1)
    return best_assignment(task, sparse_rows(column, soft.mass, task.target.shape[0]), fallback)


def anneal(
    task: Task, *starts: Assignment, confident: Array | None = None, rows: Array | None = None
) -> Assignment:
    """Improve assignments by cooling soft ones, from the mean of some assignments.

    Where two assignments are each right in a part of the graph, the neighbours of a node decide
    between them, and both parts come through. In the beginning, only nodes count that are
    `confident` [N]. Nodes outside `rows` [R] keep their partners of the first assignment.
    """
    soft = one_each(*(each.partner for each in starts))
    if confident is not None:
        soft = Soft(soft.column, soft.mass * confident[:, None].astype(np.float32))
    colds = np.geomspace(*ANNEAL)
    return harden(task, _soften(task, soft, colds, rows), starts[0].partner)


def soft_start(task: Task) -> Assignment:
    """Make soft assignments of the nodes that look most alike, at one temperature."""
    soft = from_likeness(task, START_TEMPERATURE)
    colds = np.full(SOFT_STEPS, COLD)
    fallback = filled(np.full(len(task.bonus), -1), task.target.shape[0])
    return harden(task, _soften(task, soft, colds), fallback)


def _soften(task: Task, soft: Soft, colds: Array, rows: Array | None = None) -> Soft:
    """Repeat soft assignments by the scores of the last one, for some rows [R], or for all."""
    size, kept = len(soft.column), PARTNERS
    rows = np.arange(size) if rows is None else rows
    part = Task(task.source[rows], task.target, task.candidate[rows], task.bonus[rows])
    column, likely = np.full((size, kept), -1, np.int32), np.zeros((size, kept), np.float32)
    column[:, 0], likely[:, 0] = soft.column[:, 0], 1
    for cold in colds:
        column[rows], score = neighbor_scores(part, soft, kept)
        likely[rows] = np.exp(np.float32(cold) * (score - score[:, :1]))
        soft = balanced(column, likely, task.target.shape[0])
    return soft
