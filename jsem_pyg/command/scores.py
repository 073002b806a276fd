"""Compare clusters with labels, beside those of k-means on the same points."""

from typing import Any, NamedTuple

import numpy as np

from ..evaluation import ClusteringScores, SeedScores, partition_scores
from ..evaluation.clustering import as_points, kmeans
from .content import Labels

_SEEDS = 3
_RUNS = 3  # of k-means for each seed; it keeps the best


class Scores(NamedTuple):
    """Says how well clusters agree with labels, over the rows that have one."""

    methods: dict[str, dict[str, Any]]  # by method and score; of k-means with their spread
    table: np.ndarray  # [classes, clusters] how many rows of each class are in each cluster
    labelled: int  # rows


def score(
    x: np.ndarray, clusters: np.ndarray, labels: Labels, count: int, normalize: bool
) -> Scores | None:
    """Compare the `count` clusters [N] with labels; None if too few rows have one.

    `x` [N, D] is what was clustered, scaled; `normalize` if by the cosine, as k-means then is, too.
    k-means gets all rows that the clusters have, with or without a label.
    """
    scored = (clusters >= 0) & (labels.codes >= 0)
    if scored.sum() < max(count, 2):
        return None
    points, labelled = as_points(x[clusters >= 0], normalize), scored[clusters >= 0]
    clusters, y = clusters[scored], labels.codes[scored]
    found = [kmeans(points, count, _RUNS, seed)[labelled] for seed in range(_SEEDS)]
    runs = [SeedScores(seed, *partition_scores(each, y)) for seed, each in enumerate(found)]
    ours, theirs = partition_scores(clusters, y), ClusteringScores(count, tuple(runs))
    methods: dict[str, dict[str, Any]] = {
        "these clusters": {"ARI": ours.ari, "NMI": ours.nmi, "accuracy": ours.acc},
        f"k-means with as many, {_SEEDS} seeds": {
            "ARI": (theirs.ari, theirs.ari_std),
            "NMI": (theirs.nmi, theirs.nmi_std),
            "accuracy": (theirs.acc, theirs.acc_std),
        },
    }
    table = np.zeros((len(labels.classes), count), dtype=np.int64)
    np.add.at(table, (y, clusters), 1)
    return Scores(methods, table, len(y))
