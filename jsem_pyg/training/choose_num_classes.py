"""Choose a number of clusters that heat rarely leaves and that a classifier can predict."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import bdtr
from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_nonnegative_int, check_positive, check_positive_int
from .._precision import center_and_normalize, compute_dtype, unit_rows
from ..diffusion.heat_coefficients import heat_coefficients, heat_degree
from ..diffusion.times import MARGIN
from ..kernels.edge_dot import edge_dot
from ..neighbors import knn_graph
from ..operators.laplacian import laplacian_operator
from .clusters import APART, SpectralClusters, merged_clusters, valleys
from .seeds import Purpose, derive_generator, seeded_rng
from .training_graph import TrainingGraph, prepare_graph

_log = logging.getLogger(__name__)

LARGEST = 30
TIMES = (5.0, 20.0)  # diffusion times of the features; every number takes the better one
STABILITY_TIME = 5.0  # of the heat that may leave a cluster, chosen on development sets
LEVEL_TIMES = np.geomspace(0.1, 20, 15).tolist()  # the same for levels: from neighbourhoods on
LENIENT = 0.25  # the power of the classifier's agreement in the score of further levels, likewise
MOST_LEVELS = 3
ALIKE = 1.25  # numbers that differ by less than this factor are one level
NUM_CHANNELS = 64  # more of them cost time and add little about clusters
SHRINKAGE = 0.01  # of the classifier, as a share of the mean variance
TOLERANCE = 1e-3  # of the heat

# Clusters are taken from a third on: one and a half times what data without clusters have.
LEAST_DISTINCTNESS = 1 / 3
# What chance and shape make of one cloud: the valley around a part of it, where eigenvalues leave a
# gap and where they do not; the score of a ring beside that of a Gaussian.
ORDINARY_VALLEY, ORDINARY_VALLEY_WITHOUT_GAP = 1.5, 6.0
WINDOWS = 2.0 ** -np.arange(1.5, 6, 0.5)  # of a line, in which few points are between clusters
CHANCE = 0.05  # at most, that one cloud has such a window
ORDINARY_SCORE = 1.2
WORTH = 0.5  # the share of the best score that the stability of clusters apart has, or
# more clusters are looked for: a few copies apart from a thousand texts are not all there is.
CLOUD_POINTS, MOST_CLOUDS = 3_000, 5  # of all clouds, unless one has more
CLOUD_LARGEST = 8  # clusters of a cloud; its best score has three to five
CLOUD_ROWS = 2_000  # at most, that the covariance is taken from
LEAST_LENGTH = 1e-9  # of an edge, as a share of the mean
OFF_LINE = 1e-10  # the share of squared distances that rounding leaves of points on a line
LEAST_NEIGHBORS = 5  # of a point of a cloud


class Level(NamedTuple):
    """A number of clusters, and at how many scales it is the best one."""

    num_classes: int
    persistence: float  #: in [0, 1], the share of the times, on a logarithmic scale


class ChosenClasses(NamedTuple):
    """A number of clusters, the curve that it was read from, and other numbers worth a look."""

    num_classes: int  #: the number of the first level; 1 if no clusters are distinct
    curve: dict[int, float]  #: the score of every number that was tried
    levels: list[Level]  #: at most three: the number taken, then others by persistence
    distinctness: float  #: in [0, 1], of the best clusters: near 0 as in data without clusters


def choose_num_classes(
    data: Data, *, largest: int = LARGEST, t: float = STABILITY_TIME, seed: int = 0
) -> ChosenClasses:
    r"""Choose how many clusters a graph has, without labels, and offer numbers at other scales.

    For every number of clusters, features that were diffused for 5 or 20 are clustered, and the
    score is the product of two measures, each less what chance would give:

    - the stability of the clusters: their modularity after heat has flowed for a time `t`;
    - the adjusted Rand index between the clusters and a linear classifier of the features *before*
      diffusion, which learns the clusters of one half of the nodes and predicts the other half.

    Clusters that lie apart, of any shape and size, are counted by the spectrum of the Laplacian: k
    may be their number if the eigenvalue after the k smallest ones is at least twice as large, or k
    has the highest score, and is if a valley lies around every cluster, a deeper one below a factor
    of five, unless few points lie between two clusters along a direction learned from half of them.
    The largest such number is taken, unless its stability is less than half of the best score, and
    the clusters of that are distinct, too.

    The answer is 1 where no clusters are distinct. *Distinctness* is 1 - 1 / r, if clusters are r
    times as good as those of data without clusters: either their score, beside the best score of
    clouds of the same mean, covariance, skew and number of points; or the valley around each (the
    most weight that is cut on the way from the core outwards, over the cut of the cluster, where
    an edge weighs one over its squared length, or over that of the usual one at either end), beside
    the deepest that chance makes inside one cloud: 1.5 after a gap of five or with few points
    between, else 6; points on a line have to show valleys there. Clusters are taken from 1/3 on.

    How many there are depends on the scale: heat leaves small clusters first. The number taken
    belongs to the time `t`. Other levels are offered: at each of fifteen times from 0.1 to 20, some
    number has the highest score with the fourth root of the index, which leaves more to the graph;
    one that has it for a longer range of times is more *persistent*. Of numbers that differ by less
    than a quarter, the most persistent counts for all.

    A graph of 10,000 nodes takes 4 seconds of one core, one of 100,000 nodes 15.

    Args:
        data: A graph with `x` [N, D], `edge_index` [2, E], both directions, and optionally
            `edge_weight` [E]. It is not changed, and labels in it are not used.
        largest: The largest number to try.
        t: How long heat may leave its cluster, > 0: a shorter time finds smaller clusters.
        seed: Of what is random: channels, clusters, halves.

    Returns:
        A record with `num_classes`, `curve`, `levels` and `distinctness`.

    Sources: Delvenne, Yaliraki and Barahona, "Stability of graph communities across time scales",
    2010, for the stability and its persistence over times; Tibshirani and Walther, "Cluster
    validation by prediction strength", 2005, for clusters that a classifier has to find again.

    Example:
        >>> x = torch.tensor([[1.0, 0.1], [1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 1.0], [0, 0.9]])
        >>> edges = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]])
        >>> graph = Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1))
        >>> choose_num_classes(graph).num_classes
        2
    """
    check_positive_int("largest", largest)
    check_positive("t", t)
    check_nonnegative_int("seed", seed)
    return choose_levels(prepare_graph(data), largest, t, seed)[0]


def choose_levels(
    graph: TrainingGraph,
    largest: int = LARGEST,
    t: float = STABILITY_TIME,
    seed: int = 0,
    modes: SpectralClusters | None = None,
    metric: str | None = None,
) -> tuple[ChosenClasses, Tensor]:
    """Return what `choose_num_classes` does, and the clustering [N] into the most clusters."""
    scores, finest = _score_numbers(graph, largest, [t, *LEVEL_TIMES], seed)
    curve = {count: float(score[0, 0]) for count, score in scores.items()}
    modes = SpectralClusters(graph, largest, seed) if modes is None else modes
    highest = max(curve, key=curve.__getitem__)
    found_by_modes = dict(modes.apart)
    if 1 < highest <= modes.largest:
        found_by_modes.setdefault(highest, (modes.labels(highest), 0.0))
    even = _weigh_by_length(graph, metric)
    depth = {
        n: _depth(even, labels, gap >= APART, seed, metric)
        for n, (labels, gap) in found_by_modes.items()
        # A cluster of no more points than one point has neighbours is none.
        if int(torch.bincount(labels).min()) > modes.least_degree
    }
    distinct = [n for n, found in depth.items() if found >= LEAST_DISTINCTNESS]
    best = max(distinct, default=1)
    found, stable = depth.get(best, 0.0), 0.0
    if best > 1:
        stable = float(_stability(graph, found_by_modes[best][0], best, [t])[0])
    if best == 1 or stable < WORTH * curve[highest]:
        few = max(score for count, score in curve.items() if count <= CLOUD_LARGEST)
        others = _beyond(few, _score_of_clouds(graph, t, seed, metric))
        if highest > best and others >= LEAST_DISTINCTNESS:
            best, found = highest, others
        found = max(found, others)
    ranked = rank_levels({count: score[1, 1:] for count, score in scores.items()})
    if found < LEAST_DISTINCTNESS:
        best, ranked = 1, []
    levels = join_levels(best, ranked)
    _log.info(
        "%d clusters, of 1 to %d; distinctness %.2f; levels: %s", best, max(curve), found, levels
    )
    return ChosenClasses(best, curve, levels, found), finest


def measure_distinctness(
    graph: TrainingGraph, labels: Tensor, seed: int = 0, metric: str | None = None
) -> float:
    """Measure how much better clusters [N] are than those of data without clusters, in [0, 1]."""
    labels = labels.unique(return_inverse=True)[1]
    count = int(labels.max()) + 1
    if count == 1:
        return 0.0
    x = _fewer_channels(graph.x, seed)
    score = _agreement(HalvesClassifier(x, seed), labels, count)
    score *= float(_stability(graph, labels, count, [STABILITY_TIME])[0])
    clouds = _score_of_clouds(graph, STABILITY_TIME, seed, metric)
    graph = _weigh_by_length(graph, metric)
    return max(_depth(graph, labels, False, seed, metric), _beyond(score, clouds))


def say_distinctness(distinctness: float, num_clusters: int) -> str:
    """Say in a sentence how distinct the clusters are."""
    scale = "from 0, as in data without clusters, to 1"
    if num_clusters == 1:
        return f"No clusters are distinct: the best have {distinctness:.2f} ({scale})."
    return f"Distinctness of the clusters: {distinctness:.2f} ({scale})."


def _beyond(value: float, ordinary: float) -> float:
    """Return 1 - 1 / r for a value r times the ordinary one; 0 if it is not larger."""
    return 1 - ordinary / value if value > ordinary else 0.0


def _depth(
    graph: TrainingGraph, labels: Tensor, has_gap: bool, seed: int, metric: str | None
) -> float:
    """Measure the distinctness of clusters [N] by the flattest valley around one."""
    found = float(valleys(graph, labels).min())
    in_one_column = graph.x.size(1) == 1  # few links cross a place there, clusters or none
    is_apart = has_gap and not in_one_column
    if found > ORDINARY_VALLEY and not is_apart:
        is_apart = _few_are_between(graph, labels, seed, metric)
    if in_one_column and not is_apart:
        return 0.0
    return _beyond(found, ORDINARY_VALLEY if is_apart else ORDINARY_VALLEY_WITHOUT_GAP)


def _few_are_between(graph: TrainingGraph, labels: Tensor, seed: int, metric: str | None) -> bool:
    """Return True if a line shows a valley between each cluster [N] and the nearest other one.

    It is learned from one half of the points and shows the other. No direction of a ball, square,
    sphere or ring has a window with fewer than half as many points as those next to it; a single
    column is itself the line, and any valley counts.
    """
    if _metric_of(graph, metric) == "cosine":
        x = _fewer_channels(graph.x, seed)
    else:
        x = graph.x - graph.x.mean(0)
        x = x / x.square().mean().sqrt().clamp(min=torch.finfo(x.dtype).tiny)
    count = int(labels.max()) + 1
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


def _metric_of(graph: TrainingGraph, metric: str | None) -> str:
    """Return how points were compared: by direction, where all have one length."""
    if metric is not None:
        return metric
    length = graph.x.norm(dim=1)
    return "cosine" if bool(torch.isclose(length, length[:1], rtol=1e-3).all()) else "l2"


def _weigh_by_length(graph: TrainingGraph, metric: str | None) -> TrainingGraph:
    """Weigh an edge by the inverse square of its length, or of the mean one at either end.

    The width of a kernel is too short for the tails of a cloud, which it would cut off.
    """
    x = unit_rows(graph.x) if _metric_of(graph, metric) == "cosine" else graph.x
    x, (source, target) = (x - x.mean(0)).double(), graph.edge_index
    square = x.square().sum(1)
    if x.size(1) > 1 and bool(square.any()):
        place = x @ x[square.argmax()]
        off = square - place.square() / square.max()
        if bool(off.sum() < OFF_LINE * square.sum()):
            graph = replace(graph, x=place[:, None])  # other columns say nothing more
    square = square[source] + square[target] - 2 * edge_dot(x, x, source, target)
    length = square.clamp(min=0).sqrt()
    number = torch.bincount(source, minlength=len(x)).clamp(min=1)
    mean = torch.bincount(source, length, len(x)) / number
    length = torch.stack([length, mean[source], mean[target]]).amax(0)
    least = LEAST_LENGTH * length.mean() + torch.finfo(length.dtype).tiny
    return replace(graph, edge_weight=(length.clamp(min=least) / least).pow(-2))


def _score_of_clouds(graph: TrainingGraph, t: float, seed: int, metric: str | None) -> float:
    """Compute the best score to expect of one cloud with the covariance of a graph's points."""
    degree = torch.bincount(graph.edge_index[0]).float()
    k = int(degree[degree > 0].quantile(0.1)) if bool((degree > 0).any()) else 0
    n = len(graph.x)
    k = min(max(k, LEAST_NEIGHBORS), (n - 1) // 2)
    if k < 1 or not bool(graph.x.any()):
        return 0.0
    generator = derive_generator(seed, Purpose.SKETCH)
    rows, metric = graph.x.cpu().float(), _metric_of(graph, metric)
    scale = rows.abs().max().clamp(min=torch.finfo(rows.dtype).tiny)
    rows = rows[torch.randperm(n, generator=generator)[:CLOUD_ROWS]] / scale
    mean = rows.mean(0)
    best = []
    for _ in range(max(1, min(MOST_CLOUDS, CLOUD_POINTS // n))):
        draw = torch.randn(n, len(rows), generator=generator)
        x = _bend(mean + draw @ (rows - mean) / len(rows) ** 0.5, rows)
        edge_index, weight = knn_graph(x, k, metric, seed=seed, progress=False)
        cloud = TrainingGraph(*(value.to(graph.x.device) for value in (x, edge_index, weight)))
        scores = _score_numbers(cloud, CLOUD_LARGEST, [t], seed)[0]
        best.append(max(float(score[0, 0]) for score in scores.values()))
    return ORDINARY_SCORE * float(np.mean(best))


def _bend(x: Tensor, rows: Tensor) -> Tensor:
    """Give Gaussian columns x [N, D] the skew and tails of rows [M, D], without their valleys.

    The change is linear between quantiles at -1, 0 and 1 standard deviations, and to those at -2
    and 2; a column of few values stays as it is.
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


def _score_numbers(
    graph: TrainingGraph, largest: int, times: list[float], seed: int
) -> tuple[dict[int, np.ndarray], Tensor]:
    """Score each number of clusters at times [S], [2, S], and find the most clusters, [N].

    Agreement counts fully in the first row, and less in the second, that of the levels.
    """
    x = _fewer_channels(graph.x, seed)
    classifier = HalvesClassifier(x, seed)
    scores = {1: np.zeros((2, len(times)))}
    finest = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    for _, z in graph.diffused_rows(x, TIMES):
        for count, labels in merged_clusters(z, largest, seed):
            agreement = _agreement(classifier, labels, count)
            powers = np.array([agreement, max(agreement, 0.0) ** LENIENT])[:, None]
            score = powers * _stability(graph, labels, count, times)
            if count > max(scores):  # paths go from the largest number down
                finest = labels
            scores[count] = np.maximum(score, scores.get(count, score))
    return dict(sorted(scores.items())), finest


def _agreement(classifier: "HalvesClassifier", labels: Tensor, count: int) -> float:
    """Compute the adjusted Rand index of clusters [N] and what the classifier predicts."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(classifier.predict(labels, count).cpu(), labels.cpu()))


def rank_levels(scores: dict[int, np.ndarray]) -> list[Level]:
    """Rank numbers of clusters by the share of the times [S] at which their score is highest."""
    numbers, table = list(scores), np.stack(list(scores.values()))
    wins = np.bincount(table.argmax(0), minlength=len(numbers))
    order = sorted(range(len(numbers)), key=lambda i: (-wins[i], -table[i].mean()))
    shares: dict[int, int] = {}
    for i in order:
        count = next((n for n in shares if _is_alike(n, numbers[i])), numbers[i])
        shares[count] = shares.get(count, 0) + int(wins[i])
    ranked = sorted(shares, key=lambda count: -shares[count])  # stable
    return [Level(count, shares[count] / table.shape[1]) for count in ranked if shares[count]]


def join_levels(best: int, ranked: list[Level]) -> list[Level]:
    """Return at most three levels: the chosen number, then others that are not alike."""
    same = [level.persistence for level in ranked if _is_alike(level.num_classes, best)]
    joined = [Level(best, same[0] if same else 0.0)]
    for level in ranked:
        if not any(_is_alike(level.num_classes, other.num_classes) for other in joined):
            joined.append(level)
    return joined[:MOST_LEVELS]


def _is_alike(one: int, other: int) -> bool:
    return max(one, other) < ALIKE * min(one, other)


@torch.no_grad()
def _stability(
    graph: TrainingGraph, labels: Tensor, count: int, times: Sequence[float]
) -> np.ndarray:
    """Compute how likely heat is in its cluster at each time [S], less what chance gives."""
    source, weight = graph.edge_index[0], graph.edge_weight
    weight = graph.x.new_ones(len(source)) if weight is None else weight
    share = torch.zeros(len(labels), dtype=torch.float64)
    share.index_add_(0, source.cpu(), weight.cpu().double())
    share /= share.sum().clamp(min=torch.finfo(share.dtype).tiny)  # zero without edges
    root = share.sqrt().to(graph.x.device, compute_dtype(graph.x))  # half is too coarse for sums
    at_first = F.one_hot(labels, count) * root[:, None]
    # <a, exp(-tL) a> is a sum of <a, T_k(S) a>, whatever the times; T_j(S) a and the next one give
    # those for 2j and 2j + 1.
    matrix = laplacian_operator(graph.structure, weight, dtype=at_first.dtype).matrix
    degree = heat_degree(max(times), MARGIN * TOLERANCE)
    before, term = at_first, matrix.apply(at_first)
    moments = [at_first.square().sum().item(), (at_first * term).sum().item()]
    while len(moments) <= degree:
        moments.append(2 * term.square().sum().item() - moments[0])
        before, term = term, 2 * matrix.apply(term) - before
        moments.append(2 * (before * term).sum().item() - moments[1])
    coefficients = heat_coefficients(torch.tensor(times, dtype=torch.float64), degree).numpy()
    chance = at_first.square().sum(0).square().sum().item()
    stayed: np.ndarray = moments[: degree + 1] @ coefficients - chance
    return stayed


class HalvesClassifier:
    """Predicts classes from x [N, D] by ridge regression, each half of the nodes by the other."""

    def __init__(self, x: Tensor, seed: int) -> None:
        generator = derive_generator(seed, Purpose.VALIDATION)
        first = torch.rand(len(x), generator=generator, dtype=torch.float32) < 0.5
        self._tests = [first.to(x.device), ~first.to(x.device)]
        self._x = torch.cat([x, x.new_ones(len(x), 1)], dim=1).double()
        self._roots = [_root_of_gram(self._x[~test]) for test in self._tests]

    def predict(self, labels: Tensor, count: int) -> Tensor:
        """Predict the class of each node [N] from the `labels` [N] of the other half."""
        predicted = torch.empty_like(labels)
        for test, scores in self.scores(labels, count):
            predicted[test] = scores.argmax(1)
        return predicted

    def scores(self, labels: Tensor, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield each half, and its scores [N / 2, C] by the `labels` [N] of the other half."""
        for test, root in zip(self._tests, self._roots, strict=True):
            sums = self._x.new_zeros(count, self._x.size(1))
            sums.index_add_(0, labels[~test], self._x[~test])
            yield test, self._x[test] @ torch.cholesky_solve(sums.T, root)


def _root_of_gram(x: Tensor) -> Tensor:
    gram = x.T @ x
    shrinkage = SHRINKAGE * gram.trace() / len(gram) + torch.finfo(x.dtype).tiny
    return torch.linalg.cholesky(gram + shrinkage * torch.eye(len(gram)).to(gram))


def _fewer_channels(x: Tensor, seed: int) -> Tensor:
    """Centre the rows, make them of length one, and keep the leading components of many."""
    x = center_and_normalize(x)
    if min(x.shape) <= NUM_CHANNELS:
        return x
    with seeded_rng(x.device, seed, Purpose.SKETCH):
        *_, components = torch.svd_lowrank(x, NUM_CHANNELS)
    return x @ components
