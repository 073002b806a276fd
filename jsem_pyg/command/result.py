"""Result of a run, and its table with a row for each row of the file."""

import csv
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .columns import kind_of
from .content import Content, Labels
from .scores import Scores

if TYPE_CHECKING:
    import pandas as pd

    from ..estimators import ClusterLevel, DiffusionClusterer

EMPTY = -1  # the cluster of rows without content


class MapResult(NamedTuple):
    """A file of N rows that hold P points, and their clusters."""

    content: Content
    x: np.ndarray  # [P, D] what was clustered
    clusterer: "DiffusionClusterer"
    level_names: list[list[str]]  # of the clusters of each level, the one that is taken first
    labels: Labels | None
    scores: Scores | None
    file: "pd.DataFrame"  # the table that was read

    @property
    def names(self) -> list[str]:
        """Of the clusters."""
        return self.level_names[0]

    @property
    def levels(self) -> "list[tuple[ClusterLevel, list[str]]]":
        """The levels that "auto" offers, with the names of their clusters."""
        return list(zip(self.clusterer.tree_.levels, self.level_names, strict=True))

    @property
    def compared(self) -> np.ndarray:
        """The points [P, D], scaled as they were compared."""
        return self.x if self.clusterer.scale_ is None else self.x / self.clusterer.scale_

    @property
    def row_clusters(self) -> np.ndarray:
        """The cluster [N] of each row, -1 for an empty one."""
        return np.append(self.clusterer.labels_, EMPTY)[self.content.point]

    @property
    def sizes(self) -> np.ndarray:
        """The number of rows of each cluster."""
        clusters = self.row_clusters
        return np.bincount(clusters[clusters >= 0], minlength=len(self.names))

    def table(self) -> "pd.DataFrame":
        """The N rows of the file, after the cluster of each, its name and probability."""
        return assignments(self.content, self.clusterer.probabilities_, self.names, self.file)

    def typical(self, cluster: int, count: int) -> list[str]:
        """The documents that lie nearest to the middle of a cluster."""
        if self.content.texts is None:
            return []
        members = np.flatnonzero(self.clusterer.labels_ == cluster)
        x = self.compared[members]
        nearest = members[np.argsort(((x - x.mean(0)) ** 2).sum(1), kind="stable")]
        texts = (self.content.texts[point] for point in nearest)
        return list(islice(filter(str.strip, texts), count))  # vectors may have empty ones


def option_of(level: "ClusterLevel") -> str:
    """The option that takes a level."""
    return f"--clusters {level.n_clusters}"


def assignments(
    content: Content, probabilities: np.ndarray, names: list[str], file: "pd.DataFrame"
) -> "pd.DataFrame":
    """The most probable cluster of each of the N rows; -1, without a name, for an empty one.

    The file's own columns follow, except vectors; one whose name is taken is "file NAME".
    Probabilities are [P, C], of the P points.
    """
    import pandas as pd

    # What an empty row has stands last, where its -1 points to.
    cluster = np.append(probabilities.argmax(1), EMPTY)[content.point]
    probability = np.append(probabilities.max(1), np.nan)[content.point]
    named = [*names, ""]
    table = pd.DataFrame(
        {
            "row": np.arange(len(cluster)),
            "cluster": cluster,
            "name": [named[each] for each in cluster],
            "probability": probability.round(4),
        }
    )
    for name in file.columns:
        if kind_of(file[name]) != "vectors":
            ours = str(name)
            while ours in table:  # also where the file has a column "file row" before its "row"
                ours = f"file {ours}"
            table[ours] = file[name].array  # to_numpy would make floats of integers
    return table


def as_csv(table: "pd.DataFrame") -> str:
    """The table as a CSV file, in which cells may hold any line ends."""
    text: str = table.to_csv(index=False, lineterminator="\n")
    if "\r" in text:  # not quoted by itself, and the end of a line to readers
        text = table.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    return text
