"""From features to a good assignment: where to start, and which moves to make when."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from ..problem.swaps import pulled
from .branches import is_sparse, likely_pairs
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

_COPY = 1 - 1e-6  # of the most that could be kept: the graphs are the same
_GAIN = 1e-4  # of what is kept, for another round to be worth it


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

    most, best = _most(task), None
    for start in starts:
        if isinstance(start, str) and start == "heat":
            first = greedy(task)
            stages.append(("heat", _difference(source, target, first.partner)))
            found = improve("percolation", first)
            if found.kept < _COPY * most:
                soft = improve("soft start", soft_start(task))
                both = improve("both starts", anneal(task, found, soft))
                found = max(found, soft, both, key=_kept)
            if found.kept < _COPY * most and is_sparse(source, target):
                likely = likely_pairs(source, target, distance)
                alike = improve("branches", harden(task, likely, found.partner))
                found = max(found, alike, key=_kept)
        else:
            is_random = isinstance(start, str)
            partner = generator.permutation(len(distance)) if is_random else np.asarray(start)
            begun = Assignment(partner, kept_weight(task, partner))
            found = improve("random" if is_random else "plan", begun)
        best = found if best is None else max(best, found, key=_kept)
    assert best is not None  # there is a start
    for _ in range(max_iter if best.kept < _COPY * most else 0):
        found = improve("annealing", anneal(task, best))
        gain, best = found.kept - best.kept, max(best, found, key=_kept)
        if gain <= _GAIN * best.kept:
            break
    return Found(best.partner, stages)


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
    """The most that any assignment keeps, by the inequality of Cauchy and Schwarz."""
    norms = [float(np.square(each.data, dtype=np.float64).sum()) for each in task[:2]]
    return float(np.sqrt(norms[0] * norms[1]))


def _difference(source: csr_array, target: csr_array, partner: Array) -> float:
    """The sum of |A_ik - B_jl|^2, which is zero for a copy, without cancellation."""
    difference = source - pulled(target, partner)
    return float(np.square(difference.data, dtype=np.float64).sum())
