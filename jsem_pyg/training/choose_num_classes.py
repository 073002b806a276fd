"""Choose a number of clusters that heat rarely leaves and that a classifier can predict."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_nonnegative_int, check_positive, check_positive_int
from .._precision import center_and_normalize
from ..diffusion import heat_diffusion
from .clusters import WORTH, SpectralClusters, merged_clusters
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


class Level(NamedTuple):
    """A number of clusters, and at how many scales it is the best one."""

    num_classes: int
    persistence: float  #: in [0, 1], the share of the times, on a logarithmic scale


class ChosenClasses(NamedTuple):
    """A number of clusters, the curve that it was read from, and other numbers worth a look."""

    num_classes: int  #: the number of the first level
    curve: dict[int, float]  #: the score of every number that was tried
    levels: list[Level]  #: at most three: the number taken, then others by persistence


def choose_num_classes(
    data: Data | TrainingGraph, *, largest: int = LARGEST, t: float = STABILITY_TIME, seed: int = 0
) -> ChosenClasses:
    r"""Choose how many clusters a graph has, without labels, and offer numbers at other scales.

    For every number of clusters, features that were diffused for 5 or 20 are clustered, and the
    score is the product of two measures, each less what chance would give:

    - the stability of the clusters: their modularity after heat has flowed for a time `t`;
    - the adjusted Rand index between the clusters and a linear classifier of the features *before*
      diffusion, which learns the clusters of one half of the nodes and predicts the other half.

    Too few clusters join what does not belong together; too many cut through a dense region, where
    heat crosses the cut and a node's own features do not determine its side.

    Clusters that lie apart, of any shape, are counted by the spectrum of the Laplacian instead: k
    is their number if the eigenvalue after the k smallest ones is at least five times larger. The
    most stable of these numbers is taken if its stability is more than half of the best score.

    How many there are depends on the scale: heat leaves small clusters first. The number taken
    belongs to the time `t`. Other levels are offered: at each of fifteen times from 0.1 to 20, some
    number has the highest score with the fourth root of the index, which leaves more to the graph;
    one that has it for a longer range of times is more *persistent*. Of numbers that differ by less
    than a quarter, the most persistent counts for all.

    Look at the levels and at the curve: what is nearly as high is nearly as good. A graph of 10,000
    nodes takes 4 seconds of one core, one of 100,000 nodes 15.

    Args:
        data: A graph with `x` [N, D], `edge_index` [2, E], both directions, and optionally
            `edge_weight` [E]. It is not changed, and labels in it are not used.
        largest: The largest number to try.
        t: How long heat may leave its cluster, > 0: a shorter time finds smaller clusters.
        seed: Of what is random: channels, clusters, halves.

    Returns:
        A record with `num_classes`; `curve`, a dict with the score of each number that was tried;
        and `levels`, this number and at most two others by persistence.

    Sources: Delvenne, Yaliraki and Barahona, "Stability of graph communities across time scales",
    2010, for the stability and its persistence over times; Tibshirani and Walther, "Cluster
    validation by prediction strength", 2005, and Lange et al., "Stability-based validation of
    clustering solutions", 2004, for clusters that a classifier has to find again; Ng, Jordan and
    Weiss, "On spectral clustering", 2001, for clusters that lie apart.

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
) -> tuple[ChosenClasses, Tensor]:
    """Return what `choose_num_classes` does, and the clustering [N] into the most clusters."""
    from sklearn.metrics import adjusted_rand_score

    scales = [t, *LEVEL_TIMES]
    x = _fewer_channels(graph.x, seed)
    classifier = HalvesClassifier(x, seed)
    scores = {1: np.zeros((2, len(scales)))}
    finest = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    for _, z in graph.diffused_rows(x, TIMES):
        for count, labels in merged_clusters(z, largest, seed):
            predicted = classifier.predict(labels, count)
            found_again = adjusted_rand_score(predicted.cpu(), labels.cpu())
            # Agreement counts fully in the curve, and less in the levels.
            agreement = np.array([found_again, max(found_again, 0.0) ** LENIENT])[:, None]
            score = agreement * _stability(graph, labels, count, scales)
            if count > max(scores):  # paths go from the largest number down
                finest = labels
            scores[count] = np.maximum(score, scores.get(count, score))
    scores = dict(sorted(scores.items()))
    curve = {count: float(score[0, 0]) for count, score in scores.items()}
    best = max(curve, key=curve.__getitem__)
    modes = SpectralClusters(graph, largest, seed) if modes is None else modes
    apart = {n: _stability(graph, modes.labels(n), n, [t])[0] for n in modes.numbers_apart}
    if apart and max(apart.values()) > WORTH * curve[best]:
        best = max(apart, key=apart.__getitem__)
    levels = join_levels(
        best, rank_levels({count: score[1, 1:] for count, score in scores.items()})
    )
    _log.info("%d clusters, of 1 to %d; levels: %s", best, max(curve), levels)
    return ChosenClasses(best, curve, levels), finest


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
    at_first = F.one_hot(labels, count) * share.sqrt().to(graph.x)[:, None]
    # The heat that two clusters share at time t is the product of what each has at half of it.
    half = torch.tensor(times, dtype=torch.float64) / 2
    later = heat_diffusion(at_first, graph.structure, weight, half, tol=TOLERANCE)
    chance = at_first.square().sum(0).square().sum()
    stayed: np.ndarray = (later.square().sum((1, 2)) - chance).double().cpu().numpy()
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
        for test, root in zip(self._tests, self._roots, strict=True):
            sums = self._x.new_zeros(count, self._x.size(1))
            sums.index_add_(0, labels[~test], self._x[~test])
            predicted[test] = (self._x[test] @ torch.cholesky_solve(sums.T, root)).argmax(1)
        return predicted


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
