"""Two graphs, and what has been found between them, stage by stage."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from .assignment import Assignment, Task, make_task
from .features import local_features
from .moves import percolate, swap

Array = NDArray[Any]

COPY = 1 - 1e-6  # of the most that could be kept: there is nothing to find
NEARLY = 0.99  # of the most that could be kept: there is little to find


class Pair:
    """Two graphs of N <= K nodes, the nodes that look most alike, and the stages of a search."""

    def __init__(self, source: csr_array, target: csr_array, max_iter: int, seed: int) -> None:
        self.sides, self.max_iter, self.seed = (source, target), max_iter, seed
        self.sizes = source.shape[0], target.shape[0]
        self.num_pairs = source.shape[0] * target.shape[0]
        self.local = local_features(source, target)
        self.task = make_task(source, target, self.local, seed)
        self.most = _most(self.task)
        self.stages: list[tuple[str, Array]] = []

    def misses(self, found: Assignment, share: float) -> bool:
        """Return True if less than a share of the most is kept."""
        return found.kept < share * self.most

    def improve(self, stage: str, start: Assignment) -> Assignment:
        """Improve an assignment by its neighbours, and by swaps."""
        return self.note(stage, swap(self.task, percolate(self.task, start)))

    def note(self, stage: str, found: Assignment) -> Assignment:
        """Keep a stage."""
        self.stages.append((stage, found.partner))
        return found


def _most(task: Task) -> float:
    """Bound what assignments keep, by Cauchy and Schwarz, and by the largest weight.

    For graphs without weights, that is all edges of the graph with fewer.
    """
    first, second = (each.data.astype(np.float64) for each in task[:2])
    bounds = [float(np.sqrt((first**2).sum() * (second**2).sum()))]
    bounds += [
        float(each.sum() * other.max(initial=0.0))
        for each, other in ((first, second), (second, first))
    ]
    return min(bounds)


def padded(source: csr_array, target: csr_array) -> tuple[csr_array, csr_array]:
    """Bring graphs to one size: nodes without edges join the smaller one."""
    size = max(source.shape[0], target.shape[0])
    entries = (each.tocoo() for each in (source, target))
    first, second = (coo_array((each.data, each.coords), (size, size)).tocsr() for each in entries)
    return first, second
