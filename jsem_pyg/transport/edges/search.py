"""From features to a good assignment: where to start, and which moves to make when."""

from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from .branches import is_sparse, likely_pairs
from .confidence import edge_confidence
from .features import local_features
from .moves import (
    Assignment,
    Task,
    anneal,
    assignment_task,
    greedy,
    harden,
    percolate,
    soft_start,
    swap,
)

Array = NDArray[Any]

_COPY = 1 - 1e-6  # of the most that could be kept: there is nothing to find
_GAIN = 1e-4  # of what is kept, for another round to be worth it
_BELIEVED = (0.0, 0.5, 0.3, 0.7)  # confidence of the pairs that an annealing begins with
_NEARLY = 0.99  # of the most that could be kept: there is little to find

_kept = attrgetter("kept")


class Found(NamedTuple):
    """Partners, and how the search came to them."""

    partner: Array  # [N] -1 for none
    stages: list[tuple[str, Array]]  # name, and the partners that it ended with


def search_assignment(
    source: csr_array, target: csr_array, distance: Tensor, max_iter: int
) -> Found:
    """Search the assignment that keeps most: every node of the smaller side has a partner.

    `distance` [N, K] is how little nodes look alike, and may be scaled in place; `max_iter` bounds
    the annealings of what has been found.
    """
    sizes = source.shape[0], target.shape[0]
    source, target, distance = _padded(source, target, distance)
    task = assignment_task(source, target, distance, sizes)
    most = _most(task)
    stages = []

    def note(stage: str, found: Assignment) -> Assignment:
        partner = found.partner[: sizes[0]]
        stages.append((stage, np.where(partner < sizes[1], partner, -1)))
        return found

    def improve(stage: str, start: Assignment) -> Assignment:
        return note(stage, swap(task, percolate(task, start)))

    def from_features(task: Task) -> Assignment:
        found = improve("percolation", note("heat", greedy(task)))
        if found.kept >= _COPY * most:
            return found
        soft = improve("soft start", soft_start(task))
        return max(found, soft, improve("both starts", anneal(task, found, soft)), key=_kept)

    best = from_features(task)
    if best.kept < _COPY * most and is_sparse(source, target):
        likely = likely_pairs(source, target)
        alike = improve("branches", harden(task, likely, best.partner))
        best = max(best, alike, key=_kept)
    elif best.kept < _NEARLY * most:
        both = _with_local(source, target, task.distance)
        other = from_features(assignment_task(source, target, both, sizes))
        mixed = improve("both profiles", anneal(task, best, other))
        best = max(best, other, mixed, key=_kept)
    since = 0
    for number in range(max_iter if best.kept < _COPY * most else 0):
        least = _BELIEVED[number % len(_BELIEVED)]
        believed = edge_confidence(source, target, best.partner) >= least if least else None
        found = improve("annealing", anneal(task, best, believed=believed))
        since = 0 if found.kept - best.kept > _GAIN * best.kept else since + 1
        best = max(best, found, key=_kept)
        if since == len(_BELIEVED):
            break
    note("best", best)
    return Found(stages.pop()[1], stages)


def _with_local(source: csr_array, target: csr_array, distance: Tensor) -> Tensor:
    """Squared distances [N, N] to which those of local profiles add as much in the mean."""
    found = torch.cdist(*local_features(source, target)).square_()
    return found.mul_(distance.mean() / found.mean().clamp(min=1e-30)).add_(distance)


def _padded(
    source: csr_array, target: csr_array, distance: Tensor
) -> tuple[csr_array, csr_array, Tensor]:
    """Graphs of one size: nodes without edges, which look like no other, join the smaller one."""
    size = max(distance.shape)
    if min(distance.shape) == size:
        return source, target, distance
    extra = (0, size - distance.shape[1], 0, size - distance.shape[0])
    wide = torch.nn.functional.pad(distance, extra, value=float(distance.max()))
    entries = (each.tocoo() for each in (source, target))
    first, second = (coo_array((each.data, each.coords), (size, size)).tocsr() for each in entries)
    return first, second, wide


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
