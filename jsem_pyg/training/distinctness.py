"""Measures how much better clusters are than those of data without clusters."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from scipy.special import bdtr
from torch import Tensor

from .._precision import unit_rows
from ..kernels.edge_dot import edge_dot
from ..neighbors import knn_graph
from .cluster_scores import (
    CLOUD_LARGEST,
    STABILITY_TIME,
    HalvesClassifier,
    agreement_of,
    fewer_channels,
    score_numbers,
    stability,
)
from .clusters import APART, SpectralClusters, merged_clusters, valleys
from .seeds import Purpose, derive_generator
from .training_graph import TrainingGraph

# Clusters are taken from a third on: one and a half times what data without clusters have.
LEAST_DISTINCTNESS = 1 / 3
# What chance and shape make of one cloud: the valley around a part of it, where eigenvalues leave a
# gap and where they do not; the score of a ring beside that of a Gaussian.
ORDINARY_VALLEY, ORDINARY_VALLEY_WITHOUT_GAP = 1.5, 6.0
ORDINARY_SCORE = 1.2
CLOUD_POINTS, MOST_CLOUDS = 3_000, 5  # of all clouds, unless one has more
CLOUD_ROWS = 2_000  # at most, that the covariance is taken from
LEAST_LENGTH = 1e-9  # of an edge, as a share of the mean
OFF_LINE = 1e-10  # the share of squared distances that rounding leaves of points on a line
COPIES = 1e-13  # the same of a squared distance: points nearer to each other are equal
MANY_COPIES = 0.05  # of the edges, between points that are joined to their copies only
LEAST_NEIGHBORS = 5  # of a point of a cloud
WINDOWS = 2.0 ** -np.arange(1.5, 6, 0.5)  # of a line, in which few points are between clusters
CHANCE = 0.05  # at most, that one cloud has such a window or gap
WHOLE = 0.1  # of a step, by which rounded values may be off: other values are copies


def measure_distinctness(
    graph: TrainingGraph, labels: Tensor, has_gap: bool, seed: int, metric: str | None = None
) -> float:
    """Measure how much better clusters [N] are than those of data without clusters, in [0, 1]."""
    numbers, labels = labels.unique(return_inverse=True)
    if (count := len(numbers)) == 1:
        return 0.0
    score = agreement_of(HalvesClassifier(fewer_channels(graph.x, seed), seed), labels, count)
    score *= float(stability(graph, labels, count, [STABILITY_TIME])[0])
    others = beyond(score, score_of_clouds(graph, STABILITY_TIME, seed, metric))
    return max(_depth(with_lengths(graph, seed, metric), labels, has_gap, seed), others)


def say_distinctness(distinctness: float, num_clusters: int) -> str:
    """Say in a sentence how distinct the clusters are."""
    scale = "from 0, as in data without clusters, to 1"
    if num_clusters == 1:
        return f"No clusters are distinct: the best have {distinctness:.2f} ({scale})."
    return f"Distinctness of the clusters: {distinctness:.2f} ({scale})."


def beyond(value: float, ordinary: float) -> float:
    """Return 1 - 1 / r for a value r times the ordinary one; 0 if it is not larger."""
    return 1 - ordinary / value if value > ordinary else 0.0


def depths(
    graph: TrainingGraph, found: dict[int, tuple[Tensor, float]], seed: int, metric: str | None
) -> dict[int, float]:
    """Measure the distinctness of the clusters [N] of each number, found before a gap."""
    graph = with_lengths(graph, seed, metric) if found else graph
    return {
        count: _depth(graph, labels, gap >= APART, seed) for count, (labels, gap) in found.items()
    }


def add_rivals(
    modes: SpectralClusters, graph: TrainingGraph, seed: int, metric: str | None = None
) -> SpectralClusters:
    """Take clusters of k-means for those of modes where wider gaps are between them.

    Modes and valleys see no cluster of fewer points than one has neighbours.
    """
    graph = with_lengths(graph, seed, metric)
    for count, labels in merged_clusters(graph.x, modes.largest, seed):
        chance, own = chance_of_gaps(graph.x, labels), modes.apart.get(count)
        if chance <= CHANCE and (own is None or chance_of_gaps(graph.x, own[0]) > chance):
            modes.apart[count] = labels, torch.inf
    return modes


def lie_apart(graph: TrainingGraph, found: Any, seed: int, metric: str) -> bool:
    """Return True if some clusters found before a gap, as for `depths`, are distinct."""
    return max(depths(graph, found, seed, metric).values(), default=0.0) >= LEAST_DISTINCTNESS


def _depth(graph: TrainingGraph, labels: Tensor, has_gap: bool, seed: int) -> float:
    """Measure the distinctness of clusters [N] by gaps on lines, or the flattest valley."""
    gaps = beyond(CHANCE / (1 - LEAST_DISTINCTNESS), chance_of_gaps(graph.x, labels))
    degree = torch.bincount(graph.edge_index[0])
    if int(torch.bincount(labels).min()) <= int(degree[degree > 0].min()):
        return gaps
    found, on_line = float(valleys(graph, labels).min()), graph.x.size(1) == 1
    has_copies = float((graph.weight == 1).double().mean()) > MANY_COPIES
    on_line |= has_copies  # few links cross a place there, clusters or none
    is_apart = has_gap and not on_line
    if found > ORDINARY_VALLEY and not is_apart:
        is_apart = few_are_between(graph, labels, seed)
    if on_line and not is_apart:
        return gaps
    ordinary = ORDINARY_VALLEY if is_apart else ORDINARY_VALLEY_WITHOUT_GAP
    return max(gaps, beyond(found, ordinary))


def few_are_between(graph: TrainingGraph, labels: Tensor, seed: int) -> bool:
    """Return True if a line shows a valley between each cluster [N] and the nearest other one.

    It is learned from one half of the points and shows the other. No direction of a ball, square or
    ring has a window with fewer than half as many points as those next to it; in a single column,
    any valley counts. A copy of a point counts as that point.
    """
    count = int(labels.max()) + 1
    source, target = labels[graph.edge_index]
    link = torch.bincount(source * count + target, graph.weight, count**2).view(count, count)
    points = _different_points(graph.x, labels)
    for cluster, nearest in enumerate(link.fill_diagonal_(-1).argmax(1).tolist()):
        x = torch.cat([points[cluster], points[nearest]])
        if x.size(1) == 1:
            chance = _chance_of_valley(x[:, 0], 1.0)
        else:
            own = (torch.arange(len(x)) < len(points[cluster])).long().to(x.device)
            halves = HalvesClassifier(x, seed).scores(own, 2)
            chance = max(_chance_of_valley(s[:, 1] - s[:, 0], 0.5) for _, s in halves)
        if chance > CHANCE:
            return False
    return True


def chance_of_gaps(x: Tensor, labels: Tensor) -> float:
    """Bound the chance that one cloud has gaps as wide as those between clusters [N] of x [N, D].

    The line is that through the means of two clusters; no point counts in the mean that shows its
    own place, so that two points show none. Where a density falls, m points lie in the last part w
    of their way with a chance of w^(m - 1), and the gap may be before any of m at either end:
    2 m w^(m - 1) of the worse side is that of two clusters. All of them have to be apart, so that
    the worst chance is that of all.
    """
    worst = 0.0
    for one, other in combinations(_different_points(x, labels), 2):
        places = _places(one, other.mean(0)), _places(other, one.mean(0))
        gap = sum(float(side.min()) for side in places)
        gap -= float((one.mean(0) - other.mean(0)).norm())
        for side in places:
            width = float(side.max() - side.min())
            share = width / (width + gap) if gap > 0 and len(side) > 2 else 1.0
            worst = max(worst, 2 * len(side) * share ** (len(side) - 1))
        if worst > CHANCE:
            return 1.0
    return worst


def _different_points(x: Tensor, labels: Tensor) -> list[Tensor]:
    parts = [x[labels == cluster] for cluster in range(int(labels.max()) + 1)]
    return [part.unique(dim=0) for part in parts] if x.size(1) else parts


def _places(x: Tensor, other: Tensor) -> Tensor:
    """Compute how far points x [M, D] lie from another mean [D], towards the mean of the others."""
    way = (x.sum(0) - x) / max(len(x) - 1, 1) - other
    return ((x - other) * way).sum(1) / way.norm(dim=1).clamp(min=torch.finfo(x.dtype).tiny)


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


def metric_of(x: Tensor) -> str:
    """Return how points [N, D] are compared: by direction, where all have one length."""
    length = x.norm(dim=1)
    return "cosine" if bool(torch.isclose(length, length[:1], 1e-3, 0).all()) else "l2"


def with_lengths(graph: TrainingGraph, seed: int = 0, metric: str | None = None) -> TrainingGraph:
    """Weigh an edge by the inverse square of its length, or of the mean one at either end.

    The width of a kernel would cut off the tails of a cloud. x is where lines are looked for: what
    was rounded is spread.
    """
    by_angle = (metric or metric_of(graph.x)) == "cosine"
    x = unit_rows(graph.x) if by_angle else graph.x
    x, (source, target) = (x - x.mean(0)).double(), graph.edge_index
    square = x.square().sum(1)
    both = square[source] + square[target]
    between = both - 2 * edge_dot(x, x, source, target)
    length = between.where(between > COPIES * both, 0).sqrt()
    mean = torch.bincount(source, length, len(x)) / torch.bincount(source, None, len(x)).clamp(1)
    length = torch.stack([length, mean[source], mean[target]]).amax(0)
    least = LEAST_LENGTH * length.mean() + torch.finfo(length.dtype).tiny
    if x.size(1) > 1 and bool(square.any()):
        place = x @ x[square.argmax()]
        off = square - place.square() / square.max()
        if bool(off.sum() < OFF_LINE * square.sum()):
            x, by_angle = place[:, None], False  # other columns say nothing more
    x = x / x.square().mean().sqrt().clamp(min=torch.finfo(x.dtype).tiny)
    x = fewer_channels(graph.x, seed) if by_angle else spread_evenly(x, seed)
    return replace(graph, x=x, edge_weight=(length.clamp(min=least) / least).pow(-2))


def score_of_clouds(graph: TrainingGraph, t: float, seed: int, metric: str | None) -> float:
    """Compute the best score to expect of one cloud with the covariance of a graph's points."""
    degree, n = torch.bincount(graph.edge_index[0]), len(graph.x)
    if n < 3 or not bool(graph.x.any()):
        return 0.0
    k = int(degree[degree > 0].float().quantile(0.1)) if bool(degree.any()) else 0
    k = min(max(k, LEAST_NEIGHBORS), (n - 1) // 2)
    generator = derive_generator(seed, Purpose.SKETCH)
    rows, metric = graph.x.cpu().float(), metric or metric_of(graph.x)
    scale = rows.abs().max().clamp(min=torch.finfo(rows.dtype).tiny)
    rows = rows[torch.randperm(n, generator=generator)[:CLOUD_ROWS]] / scale
    mean, unit, least = rows.mean(0), units_of(rows), rows.amin(0)
    best = []
    for _ in range(max(1, min(MOST_CLOUDS, CLOUD_POINTS // n))):
        draw = torch.randn(n, len(rows), generator=generator)
        x = _bend(mean + draw @ (rows - mean) / len(rows) ** 0.5, spread_evenly(rows, seed))
        x = torch.where(unit > 0, least + ((x - least) / unit).round() * unit, x)
        edge_index, weight = knn_graph(x, k, metric, seed=seed, progress=False)
        cloud = TrainingGraph(*(value.to(graph.x.device) for value in (x, edge_index, weight)))
        scores = score_numbers(cloud, CLOUD_LARGEST, [t], seed)[0]
        best.append(max(float(score[0, 0]) for score in scores.values()))
    return ORDINARY_SCORE * float(np.mean(best)) + 1 / n  # by chance of one point more or less


def _bend(x: Tensor, rows: Tensor) -> Tensor:
    """Give Gaussian columns x [N, D] the skew and tails of rows [M, D], without their valleys.

    It is linear between quantiles at -2, -1, ..., 2 deviations; a column of few values stays.
    """
    share = torch.special.ndtr(torch.arange(-2.0, 3.0))
    old, new = (
        each[:CLOUD_ROWS].sort(dim=0).values[(share * (min(len(each), CLOUD_ROWS) - 1)).long()]
        for each in (x, rows)
    )
    part = (x > old[1:-1, None]).sum(0)
    slope = new.diff(dim=0) / old.diff(dim=0).clamp(min=torch.finfo(x.dtype).tiny)
    bent = new.gather(0, part) + (x - old.gather(0, part)) * slope.gather(0, part)
    return torch.where((slope > 0).all(0), bent, x)


def units_of(x: Tensor) -> Tensor:
    """Return the least step [D] in columns of fewer than N / 2 values, all whole steps; else 0."""
    step = x.sort(dim=0).values.diff(dim=0)
    differ = step > 1e-6 * step.sum(0)  # nearer values differ by errors of sums
    least = step.where(differ, torch.inf).amin(0)
    part = step / least
    whole = ((part - part.round()).abs() < WHOLE).all(0)
    return least.where(least.isfinite() & whole & (2 * differ.sum(0) + 2 < len(x)), 0)


def spread_evenly(x: Tensor, seed: int) -> Tensor:
    """Draw places within half a unit of the entries of rounded columns of x [N, D]."""
    draw = torch.rand(x.shape, generator=derive_generator(seed, Purpose.SKETCH))
    return x + units_of(x) * (draw - 0.5).to(x)
