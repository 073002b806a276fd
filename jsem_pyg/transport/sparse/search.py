r"""Soft assignments of a few partners a node, refined along the edges of both graphs.

The score of a pair follows from the likely partners of its neighbours, :math:`\mathbf{A} \mathbf{M}
\mathbf{B}`, and a little for profiles that look alike. Of these scores each node keeps a few, and
a soft assignment M of them follows, in which a node without support is matched with none: so
right pairs spread along edges, also to partners that no profile had suggested. It is cooled in the
end, and becomes one assignment.

Source: Gold and Rangarajan, "A graduated assignment algorithm for graph matching", IEEE PAMI 18,
1996; marks of neighbours, Yartseva and Grossglauser, "On the performance of percolation graph
matching", 2013.
"""

import logging
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...kernels.candidates import CANDIDATES
from .candidates import find_candidates

Array = NDArray[Any]

_log = logging.getLogger(__name__)

CANDIDATES_EACH = 30  # that profiles suggest
_KEPT = 12  # partners of each node in a soft assignment
_LAST_KEPT = 30  # in the last one
_TIE = 0.1  # what profiles count, in edges
_PROFILES = 0.1  # temperature of profiles, to the median distance of the last candidate
_SUPPORT = 1.0  # edges that count as much as having no partner
_COLD = 2.0  # inverse temperature, per edge
_COLDER = (3.0, 4.0, 6.0, 10.0)
_GAIN, _PATIENCE = 2e-3, 3  # a step's gain in support that is worth more; steps without one
_LEAST_MASS = 1e-3  # of a pair that says something about its neighbours
_BALANCING = 8
_FINISHING = 4  # rounds in which nodes that are left are matched by their neighbours


class Soft(NamedTuple):
    """A soft assignment: a few partners of every node."""

    column: Array  # [N, m] int32
    mass: Array  # [N, m] float32, at most one in a row, and about that in a column
    support: float  # the mean score of the pairs, by mass


def search_candidates(
    source: csr_array, target: csr_array, max_iter: int, seed: int, backend: str = "auto"
) -> list[tuple[str, Array]]:
    """Partners of the nodes of a large graph, stage by stage; the last ones are the result.

    Args:
        source: [N, N] A, weights > 0, symmetric, without diagonal.
        target: [K, K] B.
        max_iter: the most steps before cooling.
        seed: of the search for candidates.
        backend: of the scores.

    Returns:
        Names of stages, and [N] partners: each node of the smaller side has one of its own, and -1
        is none.
    """
    kernel = CANDIDATES.find(backend, torch.device("cpu")).neighbor_scores
    sides = tuple(_unit(each) for each in (source, target))
    count = min(CANDIDATES_EACH, target.shape[0])
    candidate, distance = find_candidates(source, target, count, seed)
    far = float(np.median(distance[np.isfinite(distance)])) or 1.0
    bonus = (_TIE * np.clip(1 - distance / (2 * far), 0, 1)).astype(np.float32)
    alike = np.exp(-(distance - distance[:, :1]) / np.float32(_PROFILES * far))
    soft = _balanced(candidate, alike, np.zeros(len(alike), np.float32), target.shape[0])

    def step(soft: Soft, cold: float, kept: int = _KEPT) -> Soft:
        mass = np.where(soft.mass < _LEAST_MASS, 0, soft.mass)
        column, score = kernel(*sides, soft.column, mass, candidate, bonus, kept)
        top = score[:, :1]
        likely = np.exp(np.float32(cold) * (score - top))
        nobody = np.exp(np.minimum(np.float32(cold) * (np.float32(_SUPPORT) - top[:, 0]), 30.0))
        found = _balanced(np.maximum(column, 0), likely, nobody, target.shape[0])
        support = float((found.mass * np.maximum(score, 0)).sum(dtype=np.float64))
        return found._replace(support=support / max(1, len(score)))

    best, since = 0.0, 0
    for number in range(max_iter):
        soft = step(soft, _COLD)
        _log.debug("step %d: support %.4f", number, soft.support)
        since = since + 1 if soft.support <= best * (1 + _GAIN) else 0
        best = max(best, soft.support)
        if since == _PATIENCE:
            break
    for cold in _COLDER:
        soft = step(soft, cold, _LAST_KEPT if cold == _COLDER[-1] else _KEPT)
    partner = greedy_assignment(soft.column, soft.mass, target.shape[0])
    stages = [(f"{count} candidates, {number + 1} steps", _filled(partner, target.shape[0]))]
    for _ in range(_FINISHING):
        hard = np.maximum(partner, 0)[:, None].astype(np.int32)
        mass = (partner >= 0).astype(np.float32)[:, None]
        column, score = kernel(*sides, hard, mass, candidate, bonus, _LAST_KEPT)
        found = greedy_assignment(column, score, target.shape[0])
        if np.array_equal(found, partner):
            break
        partner = found
        stages.append(("neighbours", _filled(partner, target.shape[0])))
    return stages


def matched_difference(source: csr_array, target: csr_array, partner: Array) -> float:
    """The sum of |A_ik - B_jl|^2 over matched pairs of nodes, without cancellation.

    Args:
        source: [N, N] A.
        target: [K, K] B.
        partner: [N] partners, -1 for none.
    """
    nodes = np.flatnonzero(partner >= 0)
    chosen = partner[nodes]
    difference = source[nodes][:, nodes] - target[chosen][:, chosen]
    return float(np.square(difference.data, dtype=np.float64).sum())


def greedy_assignment(column: Array, value: Array, num_targets: int) -> Array:
    """Pair the largest values first: [N] partners, -1 for none.

    In rounds: what is the largest that is left, both of its row and of its column, is taken.

    Args:
        column: [N, m] partners.
        value: [N, m] what a pair is worth; those that are not above zero are left out.
        num_targets: K.
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


def _balanced(column: Array, value: Array, nobody: Array, num_targets: int) -> Soft:
    """Scale rows, beside `nobody` [N], to sums of one, and columns to at most one."""
    right: Array = np.ones(num_targets, np.float32)
    for _ in range(_BALANCING):
        left = 1 / np.maximum((value * right[column]).sum(1) + nobody, 1e-15)
        scaled = (value * left[:, None]).reshape(-1)
        total = np.bincount(column.reshape(-1), scaled, num_targets).astype(np.float32)
        right = 1 / np.maximum(total, 1)
    return Soft(column, value * left[:, None] * right[column], 0.0)


def _unit(matrix: csr_array) -> csr_array:
    """Weights over their root mean square, in float32, with indices in int32."""
    scale = max(float(np.sqrt(np.mean(matrix.data**2))) if matrix.nnz else 1.0, 1e-300)
    data = (matrix.data / scale).astype(np.float32)
    sides = (data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64))
    return csr_array(sides, matrix.shape)


def _filled(partner: Array, num_targets: int) -> Array:
    """Nodes that are left get partners that are left, in order, as far as there are any."""
    is_free = np.ones(num_targets, bool)
    is_free[partner[partner >= 0]] = False
    left, free = np.flatnonzero(partner < 0), np.flatnonzero(is_free)
    count = min(left.size, free.size)
    filled = partner.copy()
    filled[left[:count]] = free[:count]
    return filled
