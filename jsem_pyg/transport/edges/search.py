"""The way from features to a good assignment: where to start, and which moves to make when."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from .moves import (
    Assignment,
    Task,
    anneal,
    assignment_task,
    greedy,
    percolate,
    pulled,
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


def search_assignment(source: csr_array, target: csr_array, distance: Tensor, rounds: int) -> Found:
    """Search the assignment that keeps most, from the features and from soft assignments.

    Args:
        source: [N, N] A, symmetric.
        target: [N, N] B.
        distance: [N, N] float32, how little nodes look alike; it is scaled in place.
        rounds: the most annealings of what has been found, as long as they help.
    """
    task = assignment_task(source, target, distance)
    stages = []

    def improve(stage: str, start: Assignment) -> Assignment:
        found = swap(task, percolate(task, start))
        stages.append((stage, _difference(source, target, found.partner)))
        return found

    first = greedy(task)
    stages.append(("profiles", _difference(source, target, first.partner)))
    most = _most(task)
    hard = best = improve("percolation", first)
    if best.kept >= _COPY * most:
        rounds = 0
    else:
        soft = improve("soft start", soft_start(task))
        best = _better(_better(best, soft), improve("both starts", anneal(task, hard, soft)))
    for _ in range(rounds):
        found = improve("annealing", anneal(task, best))
        gain, best = found.kept - best.kept, _better(best, found)
        if gain <= _GAIN * best.kept:
            break
    return Found(best.partner, stages)


def padded(source: csr_array, target: csr_array, distance: Tensor) -> tuple[Any, Any, Tensor]:
    """Graphs of one size: nodes without edges, which look like nobody, join the smaller one."""
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


def _most(task: Task) -> float:
    """The most that any assignment keeps, by the inequality of Cauchy and Schwarz."""
    norms = [float(np.square(each.data, dtype=np.float64).sum()) for each in task[:2]]
    return float(np.sqrt(norms[0] * norms[1]))


def _better(first: Assignment, second: Assignment) -> Assignment:
    return second if second.kept > first.kept else first


def _difference(source: csr_array, target: csr_array, partner: Array) -> float:
    """The sum of |A_ik - B_jl|^2, which is zero for a copy, without cancellation."""
    difference = source - pulled(target, partner)
    return float(np.square(difference.data, dtype=np.float64).sum())
