"""Clusters against labels: scores, beside those of k-means on the same points."""

from typing import NamedTuple

import numpy as np
import torch

from ..evaluation import ClusteringScores, PartitionScores, clustering_scores, partition_scores
from .content import Labels

_SEEDS = 3


class Scores(NamedTuple):
    """Agreement of clusters with labels, over the rows that have one."""

    clusters: PartitionScores
    kmeans: ClusteringScores
    table: np.ndarray  # [classes, clusters] how many rows of each class are in each cluster
    labelled: int  # rows


def score(
    x: np.ndarray, clusters: np.ndarray, labels: Labels, count: int, normalize: bool
) -> Scores | None:
    """Compare clusters with labels.

    Args:
        x: [N, D] what was clustered, scaled, for each row; anything for an empty one.
        clusters: [N] the cluster of each row, -1 for an empty one.
        labels: of the rows.
        count: how many clusters there are.
        normalize: whether rows were compared by the cosine, as k-means then does, too.

    Returns:
        The scores; None where fewer rows than clusters have a label.
    """
    scored = (clusters >= 0) & (labels.codes >= 0)
    if scored.sum() < max(count, 2):
        return None
    clusters, y = clusters[scored], labels.codes[scored]
    table = np.zeros((len(labels.classes), count), dtype=np.int64)
    np.add.at(table, (y, clusters), 1)
    points = torch.from_numpy(x[scored])
    kmeans = clustering_scores(points, y, count, seeds=_SEEDS, normalize=normalize)
    return Scores(partition_scores(clusters, y), kmeans, table, len(y))
