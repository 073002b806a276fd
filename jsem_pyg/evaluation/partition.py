"""Compares a clustering with labels: ARI, NMI and matched accuracy."""

from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from .._checks import check_instance, check_labels, check_tensor, tensor_of


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
        >>> import torch
        >>> partition_scores(torch.tensor([5, 5, 7, 8]), torch.tensor([0, 0, 1, 1])).acc
        0.75
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    labels = as_labels("y", y)
    groups = as_labels("clusters", clusters, len(labels))
    if len(labels) == 0:
        raise ValueError("Expected 'y' to hold at least one label (got none).")
    ari = float(adjusted_rand_score(labels, groups))
    nmi = float(normalized_mutual_info_score(labels, groups))
    return PartitionScores(ari, nmi, _matched_accuracy(labels, groups))


def as_tensor(name: str, value: Any) -> Tensor:
    """Return a tensor of an array or tensor of numbers."""
    check_instance(name, value, (Tensor, np.ndarray), "a torch.Tensor or an array of NumPy's")
    if isinstance(value, Tensor):
        check_tensor(name, value)
        return value
    return tensor_of(name, value)


def as_labels(name: str, y: Any, num_points: int | None = None) -> np.ndarray:
    """Return checked labels as an array."""
    labels = as_tensor(name, y)
    check_labels(name, labels, num_points)
    return labels.cpu().numpy()


def _matched_accuracy(labels: np.ndarray, clusters: np.ndarray) -> float:
    """Compute the share of points in the cluster matched to their class; others match nothing."""
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics.cluster import contingency_matrix

    table = contingency_matrix(labels, clusters)  # [classes, clusters]
    matched = table[linear_sum_assignment(table, maximize=True)]
    return float(matched.sum() / len(labels))
