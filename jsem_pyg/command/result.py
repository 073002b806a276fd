"""Collect the result of a run, and make its table with a row for each row of the file."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._files import write_whole
from .columns import holds_lists
from .content import Content, Labels
from .scores import Scores

if TYPE_CHECKING:
    import pandas as pd

    from ..estimators import DiffusionClusterer
    from ..estimators.cluster_tree import ClusterLevel

_NO_CLUSTER = -1  # of rows that are left out


class MapResult(NamedTuple):
    """Holds a file of N rows with P points, and their clusters."""

    content: Content
    x: np.ndarray  # [P, D] what was clustered, scaled
    clusterer: "DiffusionClusterer"
    level_names: list[list[str]]  # of the clusters of each level, the one that is taken first
    labels: Labels | None
    scores: Scores | None
    file: "pd.DataFrame"  # the table that was read

    @property
    def names(self) -> list[str]:
        """Return the names of the clusters."""
        return self.level_names[0]

    @property
    def levels(self) -> "list[tuple[ClusterLevel, list[str]]]":
        """List the levels that "auto" offers, with the names of their clusters."""
        return list(zip(self.clusterer.tree_.levels, self.level_names, strict=True))

    @property
    def row_clusters(self) -> np.ndarray:
        """Return the cluster [N] of each row, -1 for one that is left out."""
        return np.append(self.clusterer.labels_, _NO_CLUSTER)[self.content.point]

    @property
    def sizes(self) -> np.ndarray:
        """Count the rows of each cluster."""
        clusters = self.row_clusters
        return np.bincount(clusters[clusters >= 0], minlength=len(self.names))

    def table(self) -> "pd.DataFrame":
        """Make the table of the N rows."""
        return assignments(self.content, self.clusterer.probabilities_, self.names, self.file)

    def typical(self, cluster: int, count: int) -> list[str]:
        """List the documents that lie nearest to the middle of a cluster."""
        if self.content.texts is None:
            return []
        members = np.flatnonzero(self.clusterer.labels_ == cluster)
        x = self.x[members]
        nearest = members[np.argsort(((x - x.mean(0)) ** 2).sum(1), kind="stable")]
        texts = (self.content.texts[point] for point in nearest)
        return list(islice(filter(str.strip, texts), count))  # vectors may have empty ones


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


def write_csv(path: Path, table: "pd.DataFrame") -> None:
    """Write the table as a CSV file."""
    text = as_csv(table)
    write_whole(path, lambda file: file.write(text.encode("utf-8", "replace")))


def as_csv(table: "pd.DataFrame") -> str:
    """Write the table as a text in CSV."""
    text: str = table.to_csv(index=False, lineterminator="\n")
    return text
