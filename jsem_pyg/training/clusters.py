"""Clusters by k-means, into every number of them, or by the smoothest modes of the graph.

A linear classifier of features cannot tell two circles apart, one within the other; the modes can.
The k smoothest modes of the normalised Laplacian, with rows of length one, are clustered by k-means
(Ng, Jordan and Weiss, "On spectral clustering", 2001). Where k clusters lie apart, k eigenvalues
are close to zero and the next one is not.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._precision import unit_rows
from ..diffusion import low_modes
from ..evaluation.modularity import cut_and_modularity
from .seeds import Purpose, derive_generator
from .training_graph import TrainingGraph

STARTS = 3  # of k-means on all rows, up to this many rows:
MOST_ROWS = 100_000
# Beyond, k-means starts on a sample, and more often, since each start costs little.
SAMPLE_STARTS, SAMPLE_ROWS, SAMPLE_ROWS_A_CLUSTER = 10, 20_000, 256

MOST_SMALL = 200  # clusters that the path of clusterings begins with
MOST_POINTS = 10_000  # that it clusters; the others join the nearest centre
STEPS = 10  # of k-means for each number of clusters

MOST_MODES = 100  # more clusters are left to self-training
# Eigenvalues of a single interval, circle or disc grow by factors of at most four: a larger one
# stands between clusters. Chosen, like all below, on sets that are not reported.
APART = 5.0
SMALLEST = 1e-7  # eigenvalues below are alike: links between components may be as weak
MARGIN = 0.01  # of modularity, by which clusters of the graph alone have to be better
WORTH = 0.5  # the share of another modularity that clusters need where they lie apart:
APART_CUT = 10  # times less weight is between them; or, as a pair:
FAR_APART_CUT, FAR_APART_WORTH = 1e4, 0.1


def k_means(z: Tensor, num_clusters: int, seed: int) -> Any:
    """Cluster rows z [N, D]: scikit-learn's `KMeans`, fitted.

    Up to 100,000 rows, the best of three starts on all of them. Beyond, the best of ten starts on
    20,000 rows drawn at random, or 256 a cluster if these are more, from which one run on all rows
    begins.

    Sources: Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding", 2007, for
    each start; Bradley and Fayyad, "Refining initial points for k-means clustering", 1998, for
    starts on a sample.
    """
    rows = z.cpu().numpy()
    sample_rows = max(SAMPLE_ROWS, SAMPLE_ROWS_A_CLUSTER * num_clusters)
    if len(rows) <= max(MOST_ROWS, sample_rows):
        return _fit(rows, num_clusters, seed, n_init=STARTS)
    sample = rows[_some_rows(len(rows), sample_rows, seed)]
    best = _fit(sample, num_clusters, seed, n_init=SAMPLE_STARTS)
    return _fit(rows, num_clusters, seed, init=best.cluster_centers_, n_init=1)


def merged_clusters(z: Tensor, largest: int, seed: int) -> Iterator[tuple[int, Tensor]]:
    """Merge two clusters and refine, for every number from many clusters down to 2.

    k-means finds many small clusters. The two whose union adds least to the squared distances from
    the centres are merged, again and again; from `largest` clusters on, a few steps of k-means
    refine each clustering. This is a better start for k-means than chance, and neighbouring numbers
    of clusters have most clusters in common.

    Yields the number of clusters, from `largest` down to 2, and the cluster of each row of z;
    nothing if all rows are equal.

    Sources: Ward, "Hierarchical grouping to optimize an objective function", 1963; Milligan, "An
    examination of the effect of six types of error perturbation", 1980, for it as a start of
    k-means.

    Example:
        >>> [(count, labels)] = merged_clusters(torch.tensor([[0.0], [0.1], [9.0]]), 2, seed=0)
        >>> count, bool(labels[0] == labels[1]), bool(labels[0] == labels[2])
        (2, True, False)
    """
    if z.numel() == 0:
        return
    points = z.cpu().double().numpy()
    sample = points[_some_rows(len(points), MOST_POINTS, seed)]
    first = _refine(sample, min(MOST_SMALL, len(sample)), "k-means++", seed)
    size = np.bincount(first.labels_, minlength=first.n_clusters).astype(float)
    center, size = first.cluster_centers_[size > 0], size[size > 0]
    while len(center) > 1:
        if len(center) <= largest:
            refined = _refine(sample, len(center), center, seed)
            yield len(center), torch.from_numpy(refined.predict(points)).to(z.device, torch.int64)
        center, size = _merge_nearest(center, size)


def _some_rows(count: int, most: int, seed: int) -> np.ndarray:
    """Take all rows, or `most` of them drawn at random."""
    if count <= most:
        return np.arange(count)
    order = torch.randperm(count, generator=derive_generator(seed, Purpose.SKETCH))
    return order[:most].numpy()


def _refine(points: np.ndarray, count: int, init: Any, seed: int) -> Any:
    """Take a few steps of k-means from given centres."""
    return _fit(points, count, seed, init=init, n_init=1, max_iter=STEPS)


def _fit(points: np.ndarray, count: int, seed: int, **options: Any) -> Any:
    """Fit scikit-learn's `KMeans`, without warnings of an early stop or of equal points."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(count, random_state=seed, **options).fit(points)


def _merge_nearest(center: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merge the two clusters whose union costs least: the new centres [C, D] and sizes [C]."""
    square = (center**2).sum(1)
    distance = square[:, None] + square - 2 * center @ center.T
    cost = distance * (size[:, None] * size) / (size[:, None] + size)
    np.fill_diagonal(cost, np.inf)
    one, other = divmod(int(cost.argmin()), len(center))
    total = size[one] + size[other]
    center[one] = (size[one] * center[one] + size[other] * center[other]) / total
    size[one] = total
    return np.delete(center, other, axis=0), np.delete(size, other)


class SpectralClusters:
    """The smoothest modes of a graph, and the clusters in them.

    Nodes without edges have no modes; they count to the first cluster. There are modes for up to
    `largest` clusters, and `numbers_apart` of them lie apart.
    """

    def __init__(self, graph: TrainingGraph, largest: int, seed: int) -> None:
        self._graph, self._seed = graph, seed
        self._nodes = graph.edge_index[0].unique()
        self.largest = min(largest, MOST_MODES, len(self._nodes) - 2)
        self.numbers_apart: list[int] = []
        if self.largest < 2:
            return
        place = self._nodes.new_empty(len(graph.x))
        place[self._nodes] = torch.arange(len(self._nodes), device=place.device)
        weight = None if graph.edge_weight is None else graph.edge_weight.double()
        edges = place[graph.edge_index]
        eigenvalues, self._modes = low_modes(edges, self.largest + 1, weight, seed=seed)
        eigenvalues = eigenvalues.clamp(min=SMALLEST)
        ratio = eigenvalues[2:] / eigenvalues[1:-1]
        self.numbers_apart = (2 + (ratio >= APART).nonzero().flatten()).tolist()

    def labels(self, count: int) -> Tensor:
        """Find `count` clusters: [N]."""
        rows = unit_rows(self._modes[:, :count])
        clusters = torch.from_numpy(k_means(rows, count, self._seed).labels_).to(self._nodes)
        return self._nodes.new_zeros(len(self._graph.x)).index_put((self._nodes,), clusters)


def is_better(found: Tensor, other: Tensor, graph: TrainingGraph) -> bool:
    """Return True if the graph prefers clusters `found` [N] to other ones [N].

    It does if their modularity is higher, or where they lie so far apart that modularity, which
    prefers clusters of equal size, is not the measure.
    """
    (cut, own), (others_cut, others) = (
        cut_and_modularity(graph.edge_index, graph.edge_weight, labels) for labels in (found, other)
    )
    return (
        own > others + MARGIN
        or (own > WORTH * others and cut * APART_CUT < others_cut)
        or (own > FAR_APART_WORTH * others and cut * FAR_APART_CUT < others_cut)
    )
