"""From features to a good assignment: where to start, and which moves to make when."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from ..factored.profiles import comparable
from ..problem.swaps import pulled
from ..sparse.profiles import local_profiles
from .branches import is_sparse, likely_pairs
from .confidence import edge_confidence
from .moves import (
    Assignment,
    Task,
    anneal,
    assignment_task,
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
_RIDGE = 0.03  # of :func:`.comparable`, for local profiles


class Found(NamedTuple):
    """Partners, and how the search came to them."""

    partner: Array  # [N] a permutation
    stages: list[tuple[str, float]]  # name, and the sum of |A_ik - B_jl|^2 over matched pairs


def search_assignment(
    source: csr_array,
    target: csr_array,
    distance: Tensor,
    starts: tuple[str | Array, ...],
    max_iter: int,
    seed: int,
) -> Found:
    """Search the assignment that keeps most.

    Args:
        source: [N, N] A, symmetric.
        target: [N, N] B.
        distance: [N, N] float32, how little nodes look alike; it is scaled in place.
        starts: "heat", the assignment and the soft assignment of the most alike nodes, and in
            sparse graphs that of alike branches; "random", a permutation; or partners [N].
        max_iter: the most annealings of what has been found, as long as they help.
        seed: of random permutations.
    """
    task = assignment_task(source, target, distance)
    generator = np.random.default_rng(seed)
    stages = []

    def improve(stage: str, start: Assignment) -> Assignment:
        found = swap(task, percolate(task, start))
        stages.append((stage, _difference(source, target, found.partner)))
        return found

    def from_features(task: Task) -> Assignment:
        first = greedy(task)
        stages.append(("heat", _difference(source, target, first.partner)))
        found = improve("percolation", first)
        if found.kept >= _COPY * most:
            return found
        soft = improve("soft start", soft_start(task))
        return max(found, soft, improve("both starts", anneal(task, found, soft)), key=_kept)

    most, best = _most(task), None
    for start in starts:
        if isinstance(start, str) and start == "heat":
            found = from_features(task)
            if found.kept < _COPY * most and is_sparse(source, target):
                likely = likely_pairs(source, target)
                alike = improve("branches", harden(task, likely, found.partner))
                found = max(found, alike, key=_kept)
            elif found.kept < _NEARLY * most:
                both = _with_local(source, target, task.distance)
                other = from_features(assignment_task(source, target, both))
                mixed = improve("both profiles", anneal(task, found, other))
                found = max(found, other, mixed, key=_kept)
        else:
            is_random = isinstance(start, str)
            partner = generator.permutation(len(distance)) if is_random else np.asarray(start)
            begun = Assignment(partner, kept_weight(task, partner))
            found = improve("random" if is_random else "plan", begun)
        best = found if best is None else max(best, found, key=_kept)
    assert best is not None  # there is a start
    since = 0
    for number in range(max_iter if best.kept < _COPY * most else 0):
        least = _BELIEVED[number % len(_BELIEVED)]
        believed = edge_confidence(source, target, best.partner) >= least if least else None
        found = improve("annealing", anneal(task, best, believed=believed))
        since = 0 if found.kept - best.kept > _GAIN * best.kept else since + 1
        best = max(best, found, key=_kept)
        if since == len(_BELIEVED):
            break
    return Found(best.partner, stages)


def _with_local(source: csr_array, target: csr_array, distance: Tensor) -> Tensor:
    """Squared distances [N, N] to which those of local profiles add as much in the mean."""
    sides = (torch.from_numpy(local_profiles(each)) for each in (source, target))
    first, second = (each.float() for each in comparable(*sides, ridge=_RIDGE))
    found = torch.cdist(first, second).square_()
    return found.mul_(distance.mean() / found.mean().clamp(min=1e-30)).add_(distance)


def padded(source: csr_array, target: csr_array, distance: Tensor) -> tuple[Any, Any, Tensor]:
    """Graphs of one size: nodes without edges, which look like no other, join the smaller one."""
    sizes = distance.shape
    size = max(sizes)
    if sizes[0] == sizes[1]:
        return source, target, distance
    extra = (0, size - sizes[1], 0, size - sizes[0])
    wide = torch.nn.functional.pad(distance, extra, value=float(distance.max()))
    return *(_widen(each, size) for each in (source, target)), wide


def _widen(matrix: csr_array, size: int) -> csr_array:
    entries = matrix.tocoo()
    return coo_array((entries.data, entries.coords), (size, size)).tocsr()


def _kept(assignment: Assignment) -> float:
    return assignment.kept


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


def _difference(source: csr_array, target: csr_array, partner: Array) -> float:
    """The sum of |A_ik - B_jl|^2, which is zero for a copy, without cancellation."""
    difference = source - pulled(target, partner)
    return float(np.square(difference.data, dtype=np.float64).sum())
