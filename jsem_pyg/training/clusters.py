"""Clusters by k-means, into every number of them, or by the smoothest modes of the graph.

The k smoothest modes of the normalised Laplacian, with rows of length one, are clustered by k-means
(Ng, Jordan and Weiss, "On spectral clustering", 2001). Where k clusters lie apart, k eigenvalues
are close to zero and the next one is not.
"""

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._precision import unit_rows
from ..diffusion import heat_diffusion, low_modes
from ..evaluation.modularity import cut_and_modularity
from .seeds import Purpose, derive_generator
from .training_graph import TrainingGraph

STARTS, MOST_ROWS = 3, 100_000  # of k-means on all rows, up to so many
# Beyond, it starts on a sample, and more often, since each start costs little.
SAMPLE_STARTS, SAMPLE_ROWS, SAMPLE_ROWS_A_CLUSTER = 10, 20_000, 256
MOST_SMALL = 200  # clusters that the path of clusterings begins with
MOST_POINTS = 10_000  # that it clusters; the others join the nearest centre
STEPS = 10  # of k-means for each number of clusters
MOST_MODES = 100  # more clusters are left to self-training
MORE_MODES = 10  # than clusters: some find small pieces
# Eigenvalues of a single interval, circle or disc grow by factors of at most four: a larger one
# stands between clusters. Chosen, like all below, on sets that are not reported.
APART, SOMEWHAT_APART = 5.0, 2.0  # long arms leave smaller gaps
SMALLEST = 1e-7  # eigenvalues below are alike: links between components may be as weak
VOTES = 3  # of neighbours: modes may cut the tail of a cluster off
MARGIN = 0.01  # of modularity, by which clusters of the graph alone have to be better
# Times the valleys around clusters, beyond which modularity is not asked; one deeper than the
# second number is as good as any.
DEEPER, DEEPEST = 2.0, 100.0
LONGEST, TOLERANCE = 1e3, 1e-9  # of the heat that orders the nodes of a cluster
LEAST_CUT = 1e-9  # of a cluster's weight: less is none


def k_means(z: Tensor, num_clusters: int, seed: int) -> Any:
    """Cluster rows z [N, D]: scikit-learn's `KMeans`, fitted.

    Beyond 100,000 rows, it starts from the best of ten runs on 20,000 rows drawn at random, or 256
    a cluster (Bradley and Fayyad, "Refining initial points for k-means clustering", 1998).
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
    the centres (Ward, 1963) are merged, again and again; from `largest` clusters on, a few steps of
    k-means refine each clustering. Yields the number, down to 2, and the cluster of each row of z.
    """
    if z.numel() == 0:
        return
    points = z.cpu().double().numpy()
    sample = points[_some_rows(len(points), MOST_POINTS, seed)]
    few_steps = {"n_init": 1, "max_iter": STEPS}
    first = _fit(sample, min(MOST_SMALL, len(sample)), seed, init="k-means++", **few_steps)
    size = np.bincount(first.labels_, minlength=first.n_clusters).astype(float)
    center, size = first.cluster_centers_[size > 0], size[size > 0]
    while len(center) > 1:
        if len(center) <= largest:
            refined = _fit(sample, len(center), seed, init=center, **few_steps)
            yield len(center), torch.from_numpy(refined.predict(points)).to(z.device, torch.int64)
        center, size = _merge_nearest(center, size)


def _some_rows(count: int, most: int, seed: int) -> np.ndarray:
    """Take all rows, or `most` of them drawn at random."""
    if count <= most:
        return np.arange(count)
    order = torch.randperm(count, generator=derive_generator(seed, Purpose.SKETCH))
    return order[:most].numpy()


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

    Small pieces, such as the ends of a tail, are no clusters: fewer points than half of the
    neighbours of one count to the part with the strongest links. Then every node joins most of its
    neighbours. Nodes without edges have no modes; they count to the first cluster.

    Attributes:
        largest: there are modes for up to so many clusters.
        apart: [N] the clusters of each number that may lie apart, and the gap after its modes.
    """

    def __init__(self, graph: TrainingGraph, largest: int, seed: int) -> None:
        self._graph, self._seed = graph, seed
        self._nodes, degree = graph.edge_index[0].long().unique(return_counts=True)
        self.largest = min(largest, MOST_MODES, len(self._nodes) - 2)
        self.apart: dict[int, tuple[Tensor, float]] = {}
        if self.largest < 2:
            return
        self.least_degree = int(degree.min())
        self._most = min(self.largest + MORE_MODES, len(self._nodes) - 2)
        place = self._nodes.new_empty(len(graph.x))
        place[self._nodes] = torch.arange(len(self._nodes), device=place.device)
        weight = None if graph.edge_weight is None else graph.edge_weight.double()
        edges = place[graph.edge_index]
        eigenvalues, self._modes = low_modes(edges, self._most + 1, weight, seed=seed)
        eigenvalues = eigenvalues.clamp(min=SMALLEST)
        ratio = eigenvalues[2:] / eigenvalues[1:-1]
        # The largest gap of a number comes last.
        for i in (i for i in ratio.argsort().tolist() if ratio[i] >= SOMEWHAT_APART):
            labels = self._cluster(i + 2)
            count = int(labels.max()) + 1
            if 1 < count <= self.largest:
                self.apart[count] = labels, float(ratio[i])

    def lie_apart(self, count: int) -> bool:
        """Return True if a gap of the eigenvalues says that so many clusters lie apart."""
        return count in self.apart and self.apart[count][1] >= APART

    def labels(self, count: int) -> Tensor:
        """Find `count` clusters, from more modes if some of them found small pieces: [N]."""
        if self.lie_apart(count):
            return self.apart[count][0]
        for modes in range(count, self._most + 1):
            labels = self._cluster(modes)
            if int(labels.max()) + 1 == count:
                return labels
        return self._k_means(count)

    def instead_of(self, others: Tensor, count: int) -> Tensor | None:
        """Return `count` clusters [N] if the graph prefers these to other ones [N], else None."""
        if not 1 < count <= self.largest:
            return None
        found = self.labels(count)
        is_clear = self.lie_apart(count) or len(others.unique()) < count
        return found if is_clear or is_better(found, others, self._graph) else None

    def _cluster(self, modes: int) -> Tensor:
        labels = self._k_means(modes)
        labels = join_pieces(labels, self._graph, (self.least_degree + 1) // 2)
        source, target = self._graph.edge_index
        for _ in range(VOTES):
            vote = torch.bincount(source * modes + labels[target], minlength=len(labels) * modes)
            own = labels[:, None] == torch.arange(modes).to(labels)
            labels = (2 * vote.view(-1, modes) + own).argmax(1)
        return labels.unique(return_inverse=True)[1]

    def _k_means(self, modes: int) -> Tensor:
        rows = unit_rows(self._modes[:, :modes])
        clusters = torch.from_numpy(k_means(rows, modes, self._seed).labels_).to(self._nodes)
        labels = self._nodes.new_zeros(len(self._graph.x), dtype=torch.int64)
        return labels.index_put((self._nodes,), clusters.long())


def join_pieces(labels: Tensor, graph: TrainingGraph, least: int) -> Tensor:
    """Join clusters [N] of fewer than `least` nodes to others, by the strongest links; number."""
    size = torch.bincount(labels)
    if not bool((size >= least).any()):
        return torch.zeros_like(labels)
    source, target = labels[graph.edge_index]
    link = torch.bincount(source * len(size) + target, graph.weight, len(size) ** 2)
    link = link.view(len(size), -1).masked_fill(size < least, -1)
    joined = torch.where(size < least, link.argmax(1), torch.arange(len(size)).to(size))
    return joined[labels].unique(return_inverse=True)[1]


@torch.no_grad()
def valleys(graph: TrainingGraph, labels: Tensor) -> Tensor:
    r"""Compute how deep the valley around each cluster is, whatever its size: [C], >= 1.

    The nodes of a cluster c are ordered by its own heat, from the core outwards. The weight
    between the first j of them and all others grows and falls on the way, until it is c's own cut:

    .. math:: v_c = \max_j \, \mathrm{cut}(c_1, \ldots, c_j) \, / \, \mathrm{cut}(c).

    Around a part of one cloud, be it a ball, a square or a ring, v is near 1, but in one column.
    """
    structure, weight = graph.structure, graph.weight
    source, target = graph.edge_index
    count, n = int(labels.max()) + 1, len(labels)
    degree = torch.bincount(source, weight, minlength=n)
    inside = labels[source] == labels[target]
    volume = torch.bincount(labels, degree, count)
    least = LEAST_CUT * volume.clamp(min=torch.finfo(volume.dtype).tiny)
    cut = torch.bincount(labels[source], weight * ~inside, count).clamp(min=least)
    # Heat leaves an interval in a time of 1 / conductance^2. Shorter, the core would be even.
    times = (volume / cut).square().clamp(1, LONGEST)
    times = 4 ** (times.log2() / 2).round()
    root = degree.sqrt().clamp(min=torch.finfo(degree.dtype).tiny)
    own = torch.zeros_like(degree)
    for t in times.unique().tolist():
        clusters = (times == t).nonzero().flatten()
        member = labels[:, None] == clusters
        heat = heat_diffusion(member * root[:, None], structure, weight, t, tol=TOLERANCE)
        own += (member * heat).sum(1) / root
    order = own.argsort(descending=True)
    order = order[labels[order].argsort(stable=True)]
    place = torch.empty_like(order)
    place[order] = torch.arange(n).to(place)
    # An edge inside is listed twice: it is cut from its first node on, until its last.
    step = torch.bincount(place[source], weight, n)
    last = torch.maximum(place[source], place[target])
    step -= torch.bincount(last[inside], weight[inside], n)
    begin = torch.bincount(labels, minlength=count).cumsum(0).roll(1)
    begin[0] = 0
    total = step.cumsum(0)
    path = total - (total - step)[begin][labels[order]]
    highest = torch.zeros_like(cut).scatter_reduce(0, labels[order], path, "amax")
    return (highest / cut).clamp(min=1)


def is_better(found: Tensor, other: Tensor, graph: TrainingGraph) -> bool:
    """Return True if the graph prefers clusters `found` [N] to other ones [N].

    It prefers those with the deeper valleys around them, and else of higher modularity, which
    prefers clusters of equal size.
    """
    depth, others = (
        float(valleys(graph, labels.unique(return_inverse=True)[1]).clamp(max=DEEPEST).log().mean())
        for labels in (found, other)
    )
    if abs(depth - others) > math.log(DEEPER):
        return depth > others
    own, others = (
        cut_and_modularity(graph.edge_index, graph.edge_weight, labels)[1]
        for labels in (found, other)
    )
    return own > others + MARGIN
