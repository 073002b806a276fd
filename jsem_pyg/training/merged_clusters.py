"""Clusters of every number at once: small ones are merged two by two, and each number settles."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .seeds import Purpose, derive_generator

MOST_SMALL = 200  # clusters to begin with
MOST_POINTS = 10_000  # that are clustered; the others join the nearest centre
STEPS = 10  # of k-means, wherever it is used


def merged_clusters(z: Tensor, largest: int, seed: int) -> Iterator[tuple[int, Tensor]]:
    """Cluster rows z [N, D] into `largest`, `largest` - 1, ... 2 clusters.

    k-means finds many small clusters. The two whose union adds least to the distances from the
    centres become one, again and again; a few steps of k-means settle what is left. This starts
    k-means better than chance does, costs little more than once, and the same clusters stay from
    number to number as long as they can.

    Yields:
        The number of clusters and the cluster of each row [N]; none where all rows are equal.

    Sources: Ward, "Hierarchical grouping to optimize an objective function", 1963; Milligan, "An
    examination of the effect of six types of error perturbation", 1980, for it as a start of
    k-means.

    Example:
        >>> [(count, labels)] = merged_clusters(torch.tensor([[0.0], [0.1], [9.0]]), 2, seed=0)
        >>> count, bool(labels[0] == labels[1]), bool(labels[0] == labels[2])
        (2, True, False)
    """
    if z.numel() == 0:  # no rows, or nothing in them
        return
    points = z.cpu().double().numpy()
    sample = points[_some_rows(len(points), seed)]
    first = _kmeans(sample, min(MOST_SMALL, len(sample)), "k-means++", seed)
    size = np.bincount(first.labels_, minlength=first.n_clusters).astype(float)
    center, size = first.cluster_centers_[size > 0], size[size > 0]
    while len(center) > 1:
        if len(center) <= largest:
            settled = _kmeans(sample, len(center), center, seed)
            yield len(center), torch.from_numpy(settled.predict(points)).to(z.device, torch.int64)
        center, size = _merge_nearest(center, size)


def _some_rows(count: int, seed: int) -> np.ndarray:
    if count <= MOST_POINTS:
        return np.arange(count)
    order = torch.randperm(count, generator=derive_generator(seed, Purpose.SKETCH))
    return order[:MOST_POINTS].numpy()


def _kmeans(points: np.ndarray, count: int, init: Any, seed: int) -> Any:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    model = KMeans(count, init=init, n_init=1, max_iter=STEPS, random_state=seed)
    with warnings.catch_warnings():  # that it stopped early, or that points are equal
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(points)


def _merge_nearest(center: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join the two clusters that this costs least: centres [C, D] and sizes [C] of the others."""
    square = (center**2).sum(1)
    distance = square[:, None] + square - 2 * center @ center.T
    cost = distance * (size[:, None] * size) / (size[:, None] + size)
    np.fill_diagonal(cost, np.inf)
    one, other = divmod(int(cost.argmin()), len(center))
    total = size[one] + size[other]
    center[one] = (size[one] * center[one] + size[other] * center[other]) / total
    size[one] = total
    return np.delete(center, other, axis=0), np.delete(size, other)
