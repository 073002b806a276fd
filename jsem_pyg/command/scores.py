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


def score(x: np.ndarray, clusters: np.ndarray, labels: Labels, count: int) -> Scores | None:
    """Compare clusters with labels.

    Args:
        x: [N, D] what was clustered, for each row; anything for an empty one.
        clusters: [N] the cluster of each row, -1 for an empty one.
        labels: of the rows.
        count: how many clusters there are.

    Returns:
        The scores; None where fewer rows than clusters have a label.
    """
    scored = (clusters >= 0) & (labels.codes >= 0)
    if scored.sum() < max(count, 2):
        return None
    clusters, y = clusters[scored], labels.codes[scored]
    table = np.zeros((len(labels.classes), count), dtype=np.int64)
    np.add.at(table, (y, clusters), 1)
    kmeans = clustering_scores(torch.from_numpy(x[scored]), y, count, seeds=_SEEDS)
    return Scores(partition_scores(clusters, y), kmeans, table, len(y))
