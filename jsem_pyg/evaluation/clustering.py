"""Clusterings against labels: ARI, NMI and matched accuracy; of k-means over seeds."""

import logging
import warnings
from collections.abc import Iterable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._checks import (
    check_bool,
    check_instance,
    check_labels,
    check_nonnegative_int,
    check_points,
    check_positive_int,
    check_tensor,
    tensor_of,
)
from .._precision import unit_rows

logger = logging.getLogger(__name__)


class SeedScores(NamedTuple):
    """Score one k-means run, see :func:`partition_scores`."""

    seed: int  #: of k-means
    ari: float
    nmi: float
    acc: float


class ClusteringScores(NamedTuple):
    """The scores of all seeds, their means and their (population) standard deviations."""

    num_clusters: int  #: that k-means looked for
    per_seed: tuple[SeedScores, ...]  #: the scores of each run
    ari: float  #: mean adjusted Rand index (Hubert and Arabie 1985)
    nmi: float  #: mean normalised mutual information
    acc: float  #: mean accuracy under the best one-to-one matching of clusters to classes
    ari_std: float  #: standard deviations over the seeds
    nmi_std: float
    acc_std: float

    def __str__(self) -> str:
        return (
            f"ARI {self.ari:.3f} ± {self.ari_std:.3f}, NMI {self.nmi:.3f} ± {self.nmi_std:.3f}, "
            f"ACC {self.acc:.3f} ± {self.acc_std:.3f} "
            f"({self.num_clusters} clusters, {len(self.per_seed)} seeds)"
        )


def clustering_scores(
    x: Tensor | np.ndarray,
    y: Tensor | np.ndarray,
    num_clusters: int | None = None,
    *,
    seeds: int | Iterable[int] = (0, 1, 2, 3, 4),
    n_init: int = 3,
    normalize: bool = True,
) -> ClusteringScores:
    """Cluster points by k-means and compare the clusters with labels.

    Points that coincide so that k-means finds fewer clusters than `num_clusters` (an over-smoothed
    signal, say) are scored as they are, and logged as a warning.

    Args:
        x: [N, D] points, floating point; half precision is clustered in float32.
        y: [N] integer labels; only their being equal or different counts.
        num_clusters: number of clusters; the number of distinct labels by default.
        seeds: the seeds of the runs, or their number n for seeds 0..n-1.
        n_init: restarts within a run; k-means keeps the one with the lowest inertia.
        normalize: scale rows to unit length first, so that k-means follows the cosine, as suits
            text embeddings. Zero rows stay zero.

    Returns:
        The scores of every seed, with their means and standard deviations.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
        >>> scores = clustering_scores(x, torch.tensor([0, 0, 1, 1]), seeds=2)
        >>> print(scores)
        ARI 1.000 ± 0.000, NMI 1.000 ± 0.000, ACC 1.000 ± 0.000 (2 clusters, 2 seeds)
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    check_bool("normalize", normalize)
    given = _as_tensor("x", x).detach().cpu()
    check_points("x", given)
    given = given if given.dtype == torch.float64 else given.float()
    points = (unit_rows(given) if normalize else given).numpy()
    labels = _as_labels("y", y, len(points))
    num_clusters = len(np.unique(labels)) if num_clusters is None else num_clusters
    check_positive_int("num_clusters", num_clusters)
    check_positive_int("n_init", n_init)
    chosen = _as_seeds(seeds)
    if len(points) < num_clusters:
        raise ValueError(f"Expected 'num_clusters' <= {len(points)} points (got {num_clusters}).")
    runs = []
    for seed in chosen:
        model = KMeans(num_clusters, n_init=n_init, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # logged below, with the seed
            clusters = model.fit_predict(points)
        if (found := len(np.unique(clusters))) < num_clusters:
            message = "k-means found %d clusters, not %d (seed %d): points coincide."
            logger.warning(message, found, num_clusters, seed)
        runs.append(SeedScores(seed, *partition_scores(clusters, labels)))
    numbers = np.array([run[1:] for run in runs])
    means, spreads = numbers.mean(0).tolist(), numbers.std(0).tolist()
    return ClusteringScores(int(num_clusters), tuple(runs), *means, *spreads)


def _as_seeds(seeds: int | Iterable[int]) -> list[int]:
    if isinstance(seeds, Integral):
        check_positive_int("seeds", seeds)
        return list(range(int(seeds)))
    chosen = list(seeds) if isinstance(seeds, Iterable) else [seeds]
    if not chosen:
        raise ValueError("Expected 'seeds' to hold at least one seed (got none).")
    for seed in chosen:
        check_nonnegative_int("seeds", seed)
    return list(map(int, chosen))


class PartitionScores(NamedTuple):
    """Says how well one clustering agrees with the classes."""

    ari: float  #: adjusted Rand index, in [-0.5, 1]; 0 for a random clustering
    nmi: float  #: normalised mutual information (arithmetic mean), in [0, 1]
    acc: float  #: accuracy under the best matching of clusters to classes, in [0, 1]


def partition_scores(clusters: Tensor | np.ndarray, y: Tensor | np.ndarray) -> PartitionScores:
    """Compare a clustering with labels; the numbers of clusters and classes may differ.

    Args:
        clusters: [N] integers, the cluster of each point.
        y: [N] integer labels; of both only their being equal or different counts.

    Sources: Hubert and Arabie, "Comparing partitions", 1985, for the ARI; accuracy by the
    Hungarian method as in Xie et al., "Unsupervised deep embedding for clustering", 2016, eq. (10).

    Example:
        >>> partition_scores(torch.tensor([5, 5, 7, 8]), torch.tensor([0, 0, 1, 1])).acc
        0.75
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    labels = _as_labels("y", y)
    groups = _as_labels("clusters", clusters, len(labels))
    if len(labels) == 0:
        raise ValueError("Expected 'y' to hold at least one label (got none).")
    ari = float(adjusted_rand_score(labels, groups))
    nmi = float(normalized_mutual_info_score(labels, groups))
    return PartitionScores(ari, nmi, _matched_accuracy(labels, groups))


def _as_tensor(name: str, value: Any) -> Tensor:
    """Return a tensor of an array or tensor of numbers."""
    check_instance(name, value, (Tensor, np.ndarray), "a torch.Tensor or an array of NumPy's")
    if isinstance(value, Tensor):
        check_tensor(name, value)
        return value
    return tensor_of(name, value)


def _as_labels(name: str, y: Any, num_points: int | None = None) -> np.ndarray:
    """Return checked labels as an array."""
    labels = _as_tensor(name, y)
    check_labels(name, labels, num_points)
    return labels.cpu().numpy()


def _matched_accuracy(labels: np.ndarray, clusters: np.ndarray) -> float:
    """Compute the share of points in the cluster matched to their class; others match nothing."""
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics.cluster import contingency_matrix

    table = contingency_matrix(labels, clusters)  # [classes, clusters]
    matched = table[linear_sum_assignment(table, maximize=True)]
    return float(matched.sum() / len(labels))
