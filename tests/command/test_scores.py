import numpy as np

from jsem_pyg.command.content import Labels
from jsem_pyg.command.scores import score


def test_clusters_are_scored_where_there_are_labels_enough():
    x, clusters = np.eye(6, dtype=np.float32), np.array([0, 0, 0, 1, 1, -1])
    for codes, labelled in [
        ([0, 0, 1, 1, 1, 1], 5),  # the row without a cluster does not count
        ([0, -1, -1, 1, -1, -1], 2),
        ([0, -1, -1, -1, -1, 1], None),
    ]:
        found = score(x, clusters, Labels(np.array(codes), ["a", "b"]), 2, normalize=False)
        assert (found and found.labelled) == labelled
