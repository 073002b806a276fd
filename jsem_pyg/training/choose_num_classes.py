"""Choose a number of clusters that heat rarely leaves and that a classifier can predict."""

import logging
from typing import NamedTuple

import numpy as np
from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_nonnegative_int, check_positive, check_positive_int
from .cluster_scores import CLOUD_LARGEST, STABILITY_TIME, score_numbers, stability
from .clusters import SpectralClusters
from .distinctness import LEAST_DISTINCTNESS, add_rivals, beyond, depths, score_of_clouds
from .training_graph import TrainingGraph, prepare_graph

_log = logging.getLogger(__name__)

LARGEST = 30
LEVEL_TIMES = np.geomspace(0.1, 20, 15).tolist()  # of levels: from neighbourhoods on
MOST_LEVELS = 3
ALIKE = 1.25  # numbers that differ by less than this factor are one level
WORTH = 0.5  # of the best score: less stable clusters, such as a few copies of texts, are not all


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

    Of every number of clusters, found in diffused features, the score is the product of two
    measures, each less what chance gives: the modularity after heat has flowed for a time `t`, and
    the adjusted Rand index with a linear classifier of the features *before* diffusion, which
    learns from one half of the nodes and predicts the other.

    Clusters that lie apart, of any shape and size, are counted by the spectrum of the Laplacian: k
    may be their number if the eigenvalue after the k smallest ones is at least twice as large, or k
    has the highest score, or if k-means finds k with gaps between them; and is if a valley or gap
    is around every cluster. The largest such number is taken, unless the clusters of the best score
    are distinct, too, and twice as stable.

    The answer is 1 where no clusters are distinct. *Distinctness* is 1 - 1 / r, if clusters are r
    times as good as those of data without clusters, and has to be 1/3. It is the largest of

    - their score, beside the best of clouds of the same mean, covariance, skew and rounding;
    - the valley around each: the most weight that is cut on the way from the core outwards over
      that of the cluster's own cut, where an edge weighs one over its squared length. One cloud has
      1.5 after a gap of five or with few points between, else 6. In one column, or where points
      have many copies, few points have to lie between clusters;
    - the gap on the line to every other cluster, which alone tells of clusters of fewer points than
      one has neighbours: r is .075 over the most chance that one cloud has so wide a gap.

    Levels are numbers that have the highest score, with less weight on the classifier, at some of
    fifteen times from 0.1 to 20: the more of them, the more *persistent*.

    Args:
        data: A graph with `x` [N, D], `edge_index` [2, E], both directions, and optionally
            `edge_weight` [E]. It is not changed, and labels in it are not used.
        largest: The largest number to try.
        t: How long heat may leave its cluster, > 0: a shorter time finds smaller clusters.
        seed: Of what is random: channels, clusters, halves.

    Sources: Delvenne, Yaliraki and Barahona, "Stability of graph communities across time scales",
    2010; Tibshirani and Walther, "Cluster validation by prediction strength", 2005.

    Example:
        >>> import torch
        >>> from jsem_pyg.transforms import FaissKNNGraph
        >>> x = torch.eye(2).repeat(20, 1) + torch.rand(40, 2) / 9
        >>> choose_num_classes(FaissKNNGraph(8)(Data(x=x))).num_classes
        2
    """
    check_positive_int("largest", largest)
    check_positive("t", t)
    check_nonnegative_int("seed", seed)
    return choose_levels(prepare_graph(data), largest, seed, t=t)[0]


def choose_levels(
    graph: TrainingGraph,
    largest: int = LARGEST,
    seed: int = 0,
    modes: SpectralClusters | None = None,
    metric: str | None = None,
    t: float = STABILITY_TIME,
) -> tuple[ChosenClasses, Tensor]:
    """Return what `choose_num_classes` does, and the clustering [N] into the most clusters."""
    scores, finest = score_numbers(graph, largest, [t, *LEVEL_TIMES], seed)
    curve = {count: float(score[0, 0]) for count, score in scores.items()}
    if modes is None:
        modes = add_rivals(SpectralClusters(graph, largest, seed), graph, seed, metric)
    highest = max(curve, key=curve.__getitem__)
    found_by_modes = dict(modes.apart)
    if 1 < highest <= modes.largest:
        found_by_modes.setdefault(highest, (modes.labels(highest), 0.0))
    depth = depths(graph, found_by_modes, seed, metric)
    distinct = [n for n, found in depth.items() if found >= LEAST_DISTINCTNESS]
    best = max(distinct, default=1)
    found = depth.get(best, 0.0)
    stable = stability(graph, found_by_modes[best][0], best, [t])[0] if best > 1 else 0.0
    if best == 1 or stable < WORTH * curve[highest]:
        few = max(score for count, score in curve.items() if count <= CLOUD_LARGEST)
        others = beyond(few, score_of_clouds(graph, t, seed, metric))
        if highest > best and others >= LEAST_DISTINCTNESS:
            best, found = highest, others
        found = max(found, others)
    ranked = rank_levels({count: score[1, 1:] for count, score in scores.items()})
    if found < LEAST_DISTINCTNESS:
        best, ranked = 1, []
    levels = join_levels(best, ranked)
    _log.info("%d of 1 to %d clusters; distinctness %.2f; %s", best, max(curve), found, levels)
    return ChosenClasses(best, curve, levels, found), finest


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
    others = [level for level in ranked if not _is_alike(level.num_classes, best)]  # nor each other
    return [Level(best, same[0] if same else 0.0), *others][:MOST_LEVELS]


def _is_alike(one: int, other: int) -> bool:
    return max(one, other) < ALIKE * min(one, other)
