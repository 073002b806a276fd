"""From features to a good assignment: where to start, and which moves to make when."""

from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from .branches import is_sparse, likely_pairs
from .candidates import search_candidates
from .confidence import edge_confidence
from .features import heat_distance, local_features
from .moves import (
    Assignment,
    Task,
    anneal,
    assignment_task,
    filled,
    greedy,
    harden,
    kept_weight,
    percolate,
    soft_start,
    swap,
)

Array = NDArray[Any]

_COPY = 1 - 1e-6  # of the most that could be kept: there is nothing to find
_GAIN = 1e-4  # of what is kept, for another round to be worth it
_BELIEVED = (0.0, 0.5, 0.3, 0.7)  # confidence of the pairs that an annealing begins with
_NEARLY = 0.99  # of the most that could be kept: there is little to find
_SMALL = 1 << 22  # pairs, up to which heat profiles take a second or two
_CANDIDATE_STEPS = 200  # the most

_kept = attrgetter("kept")


class Found(NamedTuple):
    """Partners, and how the search came to them."""

    partner: Array  # [N] -1 for none
    stages: list[tuple[str, Array]]  # name, and the partners that it ended with


def search_assignment(source: csr_array, target: csr_array, max_iter: int, seed: int) -> Found:
    """Search the assignment that keeps most: every node of the smaller side has a partner.

    A few candidates for each node come first, in time that grows with the edges. Where their
    answer can be better, heat profiles of all pairs of nodes give other starts; graphs of many
    nodes do without, if little is left to find.

    Args:
        source: [N, N] A, symmetric.
        target: [K, K] B.
        max_iter: the most annealings of what has been found, as long as they help.
        seed: of the search for candidates.
    """
    sizes = source.shape[0], target.shape[0]
    sides = _padded(source, target)
    alike = _filled_up(torch.cdist(*local_features(source, target)).square_())
    task = assignment_task(*sides, alike, sizes)
    most = _most(task)
    stages = []

    def note(stage: str, found: Assignment) -> Assignment:
        partner = found.partner[: sizes[0]]
        stages.append((stage, np.where(partner < sizes[1], partner, -1)))
        return found

    def improve(stage: str, start: Assignment, task: Task) -> Assignment:
        return note(stage, swap(task, percolate(task, start)))

    def from_features(task: Task) -> Assignment:
        found = improve("percolation", note("heat", greedy(task)), task)
        if found.kept >= _COPY * most:
            return found
        soft = improve("soft start", soft_start(task), task)
        return max(found, soft, improve("both starts", anneal(task, found, soft), task), key=_kept)

    likely = search_candidates(source, target, _CANDIDATE_STEPS, seed)[-1][1]
    unmatched = np.full(len(alike) - sizes[0], -1)
    partner = filled(np.concatenate([likely, unmatched]), len(alike))
    best = note("candidates", Assignment(partner, kept_weight(task, partner)))
    best = improve("neighbours", best, task)
    enough = _COPY if sizes[0] * sizes[1] <= _SMALL else _NEARLY
    if best.kept < enough * most:
        task = assignment_task(*sides, _filled_up(heat_distance(source, target)), sizes)
        best = max(best, from_features(task), key=_kept)
        if best.kept < _COPY * most and is_sparse(*sides):
            alike_branches = harden(task, likely_pairs(*sides), best.partner)
            best = max(best, improve("branches", alike_branches, task), key=_kept)
        elif best.kept < _NEARLY * most:
            # Local profiles add as much in the mean.
            share = task.distance.mean() / alike.mean().clamp(min=1e-30)
            both = alike.mul_(share).add_(task.distance)
            other = from_features(assignment_task(*sides, both, sizes))
            mixed = improve("both profiles", anneal(task, best, other), task)
            best = max(best, other, mixed, key=_kept)
    since = 0
    for number in range(max_iter if best.kept < _COPY * most else 0):
        least = _BELIEVED[number % len(_BELIEVED)]
        believed = edge_confidence(*sides, best.partner) >= least if least else None
        found = improve("annealing", anneal(task, best, believed=believed), task)
        since = 0 if found.kept - best.kept > _GAIN * best.kept else since + 1
        best = max(best, found, key=_kept)
        if since == len(_BELIEVED):
            break
    note("best", best)
    return Found(stages.pop()[1], stages)


def _padded(source: csr_array, target: csr_array) -> tuple[csr_array, csr_array]:
    """Graphs of one size: nodes without edges join the smaller one."""
    size = max(source.shape[0], target.shape[0])
    entries = (each.tocoo() for each in (source, target))
    first, second = (coo_array((each.data, each.coords), (size, size)).tocsr() for each in entries)
    return first, second


def _filled_up(distance: Tensor) -> Tensor:
    """A square table [N, N], in which nodes that join the smaller side look like no other."""
    size = max(distance.shape)
    if min(distance.shape) == size:
        return distance
    extra = (0, size - distance.shape[1], 0, size - distance.shape[0])
    return torch.nn.functional.pad(distance, extra, value=float(distance.max()))


def _most(task: Task) -> float:
    """A bound of what assignments keep, by Cauchy and Schwarz, and by the largest weight.

    For graphs without weights, that is all edges of the graph with fewer.
    """
    first, second = (np.abs(each.data.astype(np.float64)) for each in task[:2])
    bounds = [float(np.sqrt((first**2).sum() * (second**2).sum()))]
    bounds += [
        float(each.sum() * other.max(initial=0.0))
        for each, other in ((first, second), (second, first))
    ]
    return min(bounds)
