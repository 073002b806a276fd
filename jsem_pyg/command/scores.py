"""Compare clusters with labels, beside k-means on the same points."""

from typing import Any, NamedTuple

import numpy as np

from ..evaluation import clustering_scores, partition_scores
from .content import Labels

_SEEDS = 3  # of k-means


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
    """
    scored = (clusters >= 0) & (labels.codes >= 0)
    if scored.sum() < max(count, 2):
        return None
    clusters, y = clusters[scored], labels.codes[scored]
    ours = partition_scores(clusters, y)
    theirs = clustering_scores(x[scored], y, count, seeds=_SEEDS, normalize=normalize)
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
