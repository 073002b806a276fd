"""How many clusters, chosen without labels: for the time being, by modularity over a range."""

import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from .class_guesses import diffused_features
from .time_selection import select_time
from .training_graph import TrainingGraph

# Modularity hardly falls from its best on; the fewest clusters that are nearly as good are taken.
# One per cent was chosen on digits (10 of 10 classes) and AG News (9 of 4), and then seen on Stack
# Overflow (13 of 20) and 20 Newsgroups (10 or 11 of 20).
NEARLY = 0.99


class ChosenClasses(NamedTuple):
    """A number of clusters, and the curve that it was read from."""

    num_classes: int
    modularities: dict[int, float]  # of every number that was tried


def choose_num_classes(
    graph: TrainingGraph, largest: int, *, t: float | None = None, seed: int = 0
) -> ChosenClasses:
    """Choose the fewest clusters, from two to `largest`, that have nearly the best modularity.

    The diffused features are clustered by k-means into as many as possible. Then the two clusters
    are merged, again and again, that modularity likes best together, down to two.

    Args:
        graph: the graph, with its features.
        largest: the largest number to try.
        t: how long the features diffuse before they are clustered; None: as long as the triplet
            loss likes best.
        seed: of the time and of k-means.

    Source: Clauset, Newman and Moore, "Finding community structure in very large networks", 2004,
    for the merging.
    """
    t = select_time(graph, seed=seed).t if t is None else t
    [(_, z)] = diffused_features(graph, [t])
    labels = _kmeans(z, min(largest, len(z)), seed)
    modularities = modularities_by_merging(_shares(graph, labels))
    good = NEARLY * max(modularities.values())
    return ChosenClasses(min(c for c, q in modularities.items() if q >= good), modularities)


def modularities_by_merging(share: Tensor) -> dict[int, float]:
    """The modularity of C, C - 1, ... 2 clusters (of one, if C is one), the best two merged.

    Args:
        share: [C, C] symmetric, the share of the weight of all edges that leads from cluster to
            cluster.

    Example:
        >>> share = torch.tensor([[2, 1, 0], [1, 2, 0], [0, 0, 2]]) / 8
        >>> modularities_by_merging(share)
        {3: 0.40625, 2: 0.375}
    """
    share, found = share.double(), {}
    while True:
        degree = share.sum(1)
        found[len(share)] = float(share.diagonal().sum() - degree.square().sum())
        if len(share) <= 2:
            return found
        gain = (share - degree[:, None] * degree).fill_diagonal_(-torch.inf)
        one, other = divmod(int(gain.argmax()), len(share))
        into = torch.eye(len(share), dtype=torch.float64)
        into[other, one] = 1
        into = into[:, torch.arange(len(share)) != other]
        share = into.T @ share @ into


def _shares(graph: TrainingGraph, labels: Tensor) -> Tensor:
    """[C, C] the share of the weight that leads from cluster to cluster."""
    source, target = labels[graph.edge_index]
    weight = graph.edge_weight
    weight = torch.ones(len(source)) if weight is None else weight
    count = int(labels.max()) + 1
    table = torch.zeros(count, count, dtype=torch.float64)
    table.index_put_((source, target), weight.double(), accumulate=True)
    return table / table.sum()


def _kmeans(z: Tensor, count: int, seed: int) -> Tensor:
    """[N] clusters; fewer than `count` where points coincide."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = KMeans(count, n_init=1, random_state=seed).fit_predict(z.cpu().numpy())
    return torch.from_numpy(labels).unique(return_inverse=True)[1]
