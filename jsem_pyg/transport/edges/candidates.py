r"""Graphs too large for all pairs of their nodes: a few candidate partners for each node.

Candidates are the nodes of the other graph whose local profiles are nearest. Soft assignments of
them are refined along the edges of both graphs: the score of a pair follows from the likely
partners of its neighbours, :math:`\mathbf{A} \mathbf{M} \mathbf{B}`, and a little from profiles
that look alike. Of these scores each node keeps a few, and a soft assignment M of them follows, in
which a node without support is matched with none: so right pairs spread along edges, also to
partners that no profile had suggested. It is cooled in the end, and becomes one assignment.

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

from ...graph.faiss_search import import_faiss
from ...kernels.table import CANDIDATES
from .features import local_features
from .moves import filled, greedy_assignment, in_unit

Array = NDArray[Any]

_log = logging.getLogger(__name__)

CANDIDATES_EACH = 30  # that profiles suggest
_EXACT = 20_000  # nodes up to which all pairs of profiles are compared
_PROBES = 24  # cells of an inverted file that are looked at
_TRAINING = 40  # points a cell
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

    For weights > 0, symmetric, without diagonal; `max_iter` bounds the steps before cooling. Each
    stage has a name and partners [N]: each node of the smaller side has one, and -1 is none.
    """
    kernel = CANDIDATES.find(backend, torch.device("cpu")).neighbor_scores
    sides = in_unit(source), in_unit(target)
    size = target.shape[0]
    candidate, distance = find_candidates(source, target, min(CANDIDATES_EACH, size), seed)
    far = float(np.median(distance[np.isfinite(distance)])) or 1.0
    bonus = (_TIE * np.clip(1 - distance / (2 * far), 0, 1)).astype(np.float32)
    alike = np.exp(-(distance - distance[:, :1]) / np.float32(_PROFILES * far))
    soft = _balanced(candidate, alike, np.zeros(len(alike), np.float32), size)

    def step(soft: Soft, cold: float, kept: int = _KEPT) -> Soft:
        mass = np.where(soft.mass < _LEAST_MASS, 0, soft.mass)
        column, score = kernel(*sides, soft.column, mass, candidate, bonus, kept)
        top = score[:, :1]
        likely = np.exp(np.float32(cold) * (score - top))
        nobody = np.exp(np.minimum(np.float32(cold) * (np.float32(_SUPPORT) - top[:, 0]), 30.0))
        found = _balanced(np.maximum(column, 0), likely, nobody, size)
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
    partner = greedy_assignment(soft.column, soft.mass, size)
    name = f"{candidate.shape[1]} candidates, {number + 1} steps"
    stages = [(name, filled(partner, size))]
    for _ in range(_FINISHING):
        hard = np.maximum(partner, 0)[:, None].astype(np.int32)
        mass = (partner >= 0).astype(np.float32)[:, None]
        column, score = kernel(*sides, hard, mass, candidate, bonus, _LAST_KEPT)
        found = greedy_assignment(column, score, size)
        if np.array_equal(found, partner):
            break
        partner = found
        stages.append(("neighbours", filled(partner, size)))
    return stages


def find_candidates(
    source: csr_array, target: csr_array, count: int, seed: int
) -> tuple[Array, Array]:
    """The `count` nodes of the target that look most alike, nearest first.

    Columns [N, count] int32, and squared distances [N, count] float32.
    """
    first, second = (each.numpy() for each in local_features(source, target))
    faiss = import_faiss()
    size, width = second.shape
    index = faiss.IndexFlatL2(width)
    if size > _EXACT:
        index = faiss.IndexIVFFlat(index, width, int(2 * size**0.5))
        index.nprobe, index.cp.seed, index.cp.niter = _PROBES, 1 + seed % (2**31 - 2), 6
        index.cp.max_points_per_centroid = _TRAINING
        index.train(second)
    index.add(second)
    distance, column = index.search(first, count)
    # An inverted file may find fewer: the nearest once more, which is worth nothing.
    lost = column < 0
    column, distance = np.where(lost, column[:, :1], column), np.where(lost, np.inf, distance)
    return np.maximum(column, 0).astype(np.int32), np.maximum(distance, 0)


def _balanced(column: Array, value: Array, nobody: Array, num_targets: int) -> Soft:
    """Scale rows, beside `nobody` [N], to sums of one, and columns to at most one."""
    right: Array = np.ones(num_targets, np.float32)
    for _ in range(_BALANCING):
        left = 1 / np.maximum((value * right[column]).sum(1) + nobody, 1e-15)
        scaled = (value * left[:, None]).reshape(-1)
        total = np.bincount(column.reshape(-1), scaled, num_targets).astype(np.float32)
        right = 1 / np.maximum(total, 1)
    return Soft(column, value * left[:, None] * right[column], 0.0)
