"""Finds few points between clusters along a line that half of the points have shown."""

import numpy as np
import torch
from scipy.special import bdtr
from torch import Tensor

from .cluster_scores import HalvesClassifier
from .seeds import Purpose, derive_generator
from .training_graph import TrainingGraph

WINDOWS = 2.0 ** -np.arange(1.5, 6, 0.5)  # of a line, in which few points are between clusters
CHANCE = 0.05  # at most, that one cloud has such a window


def few_are_between(graph: TrainingGraph, labels: Tensor, seed: int) -> bool:
    """Return True if a line shows a valley between each cluster [N] and the nearest other one.

    It is learned from one half of the points and shows the other. No direction of a ball, square or
    ring has a window with fewer than half as many points as those next to it; in a single column,
    any valley counts.
    """
    x, count = graph.x, int(labels.max()) + 1
    source, target = labels[graph.edge_index]
    link = torch.bincount(source * count + target, graph.weight, count**2).view(count, count)
    for cluster, nearest in enumerate(link.fill_diagonal_(-1).argmax(1).tolist()):
        own = (labels == cluster) | (labels == nearest)
        if x.size(1) == 1:
            chance = _chance_of_valley(x[own, 0], 1.0)
        else:
            halves = HalvesClassifier(x[own], seed).scores((labels[own] == cluster).long(), 2)
            chance = max(_chance_of_valley(s[:, 1] - s[:, 0], 0.5) for _, s in halves)
        if chance > CHANCE:
            return False
    return True


def _chance_of_valley(places: Tensor, share: float) -> float:
    """Bound the chance of so few points in a window of a line, beside `share` of its neighbours."""
    line = places.double().sort().values.cpu().numpy()
    if len(line) == 0 or line[0] == line[-1]:
        return 1.0
    chance, number = 1.0, 0
    for width in (line[-1] - line[0]) * WINDOWS:
        start = np.arange(line[0] - width, line[-1], width / 8)
        edges = np.searchsorted(line, start + width * np.arange(4)[:, None])
        before, between, behind = np.diff(edges, axis=0)
        total = between + np.minimum(before, behind)
        chance = min(chance, float(bdtr(between, total, share / (1 + share)).min()))
        number += len(start)
    return number * chance


def units_of(x: Tensor) -> Tensor:
    """Return the least step [D] in columns of fewer than N / 2 values, such as counts; else 0."""
    step = x.sort(dim=0).values.diff(dim=0)
    differ = step > 1e-6 * step.sum(0)  # nearer values differ by errors of sums
    least = step.where(differ, torch.inf).amin(0)
    return least.where(least.isfinite() & (2 * differ.sum(0) + 2 < len(x)), 0)


def spread_evenly(x: Tensor, seed: int) -> Tensor:
    """Draw places within half a unit of the entries of rounded columns of x [N, D]."""
    draw = torch.rand(x.shape, generator=derive_generator(seed, Purpose.SKETCH))
    return x + units_of(x) * (draw - 0.5).to(x)
