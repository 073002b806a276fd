"""Hold the result of a run, compare it with labels, and make its table."""

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..evaluation import clustering_scores, partition_scores
from .columns import holds_lists
from .content import Content

if TYPE_CHECKING:
    import pandas as pd

    from ..estimators import DiffusionClusterer

_NO_CLUSTER = -1  # of rows that are left out
_SEEDS = 3  # of k-means


class MapResult(NamedTuple):
    """Holds a file of N rows with P points, and their clusters."""

    content: Content
    x: np.ndarray  # [P, D] what was clustered, scaled
    clusterer: "DiffusionClusterer"
    level_names: list[list[str]]  # of the clusters of each level, the one that is taken first
    labels: np.ndarray | None  # [N] the class of each row of the file, -1 for none
    classes: list[str]
    file: "pd.DataFrame"  # the table that was read

    @property
    def names(self) -> list[str]:
        """Return the names of the clusters."""
        return self.level_names[0]

    @property
    def row_clusters(self) -> np.ndarray:
        """Return the cluster [N] of each row, -1 for one that is left out."""
        return np.append(self.clusterer.labels_, _NO_CLUSTER)[self.content.point]

    @property
    def sizes(self) -> np.ndarray:
        """Count the rows of each cluster."""
        clusters = self.row_clusters
        return np.bincount(clusters[clusters >= 0], minlength=len(self.names))

    def typical(self, cluster: int, count: int) -> list[str]:
        """List the documents that lie nearest to the middle of a cluster."""
        members = np.flatnonzero(self.clusterer.labels_ == cluster)
        x = self.x[members]
        nearest = members[np.argsort(((x - x.mean(0)) ** 2).sum(1), kind="stable")]
        texts = (self.content.texts[point] for point in nearest) if self.content.texts else ()
        return list(islice(filter(str.strip, texts), count))  # vectors may have empty ones

    def score(self) -> dict[str, dict[str, Any]] | None:
        """Compare with the labels, beside k-means; None if there are none, or too few.

        Returns:
            Scores by method and name, over the rows that have a label; of k-means with their
            spread.
        """
        if self.labels is None:
            return None
        count = len(self.names)
        scored = (self.row_clusters >= 0) & (self.labels >= 0)
        if scored.sum() < max(count, 2):
            return None
        clusters, y = self.row_clusters[scored], self.labels[scored]
        x, by_angle = self.x[self.content.point[scored]], self.clusterer.metric_ == "cosine"
        ours = partition_scores(clusters, y)
        theirs = clustering_scores(x, y, count, seeds=_SEEDS, normalize=by_angle)
        return {
            "these clusters": {"ARI": ours.ari, "NMI": ours.nmi, "accuracy": ours.acc},
            f"k-means with as many, {_SEEDS} seeds": {
                "ARI": (theirs.ari, theirs.ari_std),
                "NMI": (theirs.nmi, theirs.nmi_std),
                "accuracy": (theirs.acc, theirs.acc_std),
            },
        }


def assignments(
    content: Content, probabilities: np.ndarray, names: list[str], file: "pd.DataFrame"
) -> "pd.DataFrame":
    """Make a table: each of the N rows, its most probable cluster, and the columns of the file.

    A row that is left out has no cluster. Columns of vectors are left out, and one whose name is
    taken is "file NAME". Probabilities are [P, C], of the P points.
    """
    import pandas as pd

    # What a row that is left out has stands last, where its -1 points to.
    cluster = np.append(probabilities.argmax(1), _NO_CLUSTER)[content.point]
    probability = np.append(probabilities.max(1), np.nan)[content.point]
    named = [*names, ""]
    table = pd.DataFrame(
        {
            "row": np.arange(len(cluster)),
            "cluster": pd.Series(cluster, dtype="Int64").mask(cluster < 0),
            "name": [named[each] for each in cluster],
            "probability": probability.round(4),
        }
    )
    for name in file.columns:
        if not holds_lists(file[name]):
            ours = str(name)
            while ours in table:  # also where the file has a column "file row" before its "row"
                ours = f"file {ours}"
            table[ours] = file[name].array  # to_numpy would make floats of integers
    return table


def as_csv(table: "pd.DataFrame") -> bytes:
    """Write the table as a text in CSV, in UTF-8."""
    text: str = table.to_csv(index=False, lineterminator="\n")
    return text.encode("utf-8", "replace")
