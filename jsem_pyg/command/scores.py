"""Clusters against labels: scores, beside those of k-means on the same points."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from ..evaluation import ClusteringScores, PartitionScores, clustering_scores, partition_scores

_SEEDS = 3


if TYPE_CHECKING:
    from .result import MapResult


class Scores(NamedTuple):
    """How well clusters agree with labels, of the rows that have one."""

    clusters: PartitionScores
    kmeans: ClusteringScores
    table: np.ndarray  # [classes, clusters] how many rows of each class are in each cluster
    labelled: int  # rows


def score(result: "MapResult") -> Scores | None:
    """Compare clusters with labels; None where fewer rows than clusters have one."""
    assert result.labels is not None
    clusters, y = result.row_clusters, result.labels.codes
    scored = (clusters >= 0) & (y >= 0)
    count = len(result.names)
    if scored.sum() < max(count, 2):
        return None
    clusters, y = clusters[scored], y[scored]
    table = np.zeros((len(result.labels.classes), count), dtype=np.int64)
    np.add.at(table, (y, clusters), 1)
    x = torch.from_numpy(result.x[result.content.point[scored]])
    kmeans = clustering_scores(x, y, count, seeds=_SEEDS)
    return Scores(partition_scores(clusters, y), kmeans, table, len(y))
