"""What came out of a run, and a table of it with a row for each row of the file."""

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .content import Content, Labels
from .scores import Scores

if TYPE_CHECKING:
    import pandas as pd

    from ..estimators import DiffusionClusterer

EMPTY = -1  # the cluster of rows without content


class MapResult(NamedTuple):
    """A file of N rows that hold P points, and their clusters."""

    content: Content
    x: np.ndarray  # [P, D] what was clustered
    clusterer: "DiffusionClusterer"
    names: list[str]  # of the clusters
    labels: Labels | None
    scores: Scores | None

    @property
    def row_clusters(self) -> np.ndarray:
        """The cluster [N] of each row, -1 for an empty one."""
        return np.append(self.clusterer.labels_, EMPTY)[self.content.point]

    @property
    def sizes(self) -> np.ndarray:
        """How many rows each cluster has."""
        clusters = self.row_clusters
        return np.bincount(clusters[clusters >= 0], minlength=len(self.names))

    def table(self) -> "pd.DataFrame":
        """The cluster of each of the N rows, its name and probability, label and text."""
        table = assignments(self.content, self.clusterer.probabilities_, self.names)
        if self.labels is not None:
            classes = [*self.labels.classes, ""]  # -1 is the last
            table.insert(4, "label", [classes[code] for code in self.labels.codes])
        return table

    def typical(self, cluster: int, count: int) -> list[str]:
        """The documents that lie nearest to the middle of a cluster."""
        if self.content.texts is None:
            return []
        members = np.flatnonzero(self.clusterer.labels_ == cluster)
        middle = self.x[members].mean(0)
        nearest = members[np.argsort(((self.x[members] - middle) ** 2).sum(1), kind="stable")]
        texts = (self.content.texts[point] for point in nearest)
        return list(islice(filter(str.strip, texts), count))  # vectors may have empty ones


def assignments(content: Content, probabilities: np.ndarray, names: list[str]) -> "pd.DataFrame":
    """The most probable cluster of each of the N rows; -1, without a name, for an empty one.

    Args:
        content: the rows, and the P points in them.
        probabilities: [P, C].
        names: the C names.
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
    if content.texts is not None:
        texts = [*content.texts, ""]
        table["text"] = [texts[point] for point in content.point]
    return table
