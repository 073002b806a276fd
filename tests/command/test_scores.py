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


def test_k_means_clusters_the_rows_without_a_label_too():
    x = np.array([[0.0], [1.0], [50.0], [51.0], [-1.0]])  # the last is empty
    codes = np.array([0, 1, -1, -1, 1])
    found = score(x, np.array([0, 0, 1, 1, -1]), Labels(codes, ["a", "b"]), 2, normalize=False)
    ours, theirs = found.methods.values()  # of these two alone k-means makes two clusters
    assert ours["accuracy"] == theirs["accuracy"][0] == 0.5
    assert found.labelled == 2
