import numpy as np
import torch
from scipy.cluster.hierarchy import cut_tree, linkage
from sklearn.metrics import adjusted_rand_score

from jsem_pyg.training import merged_clusters as module
from jsem_pyg.training.merged_clusters import merged_clusters


def test_every_number_comes_once_and_has_that_many_clusters():
    z = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    found = dict(merged_clusters(z, 12, seed=0))
    assert list(found) == list(range(12, 1, -1))
    for count, labels in found.items():
        assert labels.dtype == torch.int64
        assert labels.unique().tolist() == list(range(count))


def test_unions_are_those_of_ward():
    z = np.random.default_rng(0).normal(size=(40, 3))
    tree = linkage(z, "ward")
    center, size = z.copy(), np.ones(40)
    while len(center) > 2:
        center, size = module._merge_nearest(center, size)
        labels = cut_tree(tree, len(center))[:, 0]
        expected = np.array([z[labels == label].mean(0) for label in np.unique(labels)])
        np.testing.assert_allclose(np.sort(center, axis=0), np.sort(expected, axis=0))
        assert sorted(size) == sorted(np.bincount(labels))


def test_points_that_were_not_drawn_join_the_nearest_centre(monkeypatch):
    monkeypatch.setattr(module, "MOST_POINTS", 50)
    y = torch.arange(300) % 3
    z = torch.eye(3)[y] + 0.1 * torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    found = dict(merged_clusters(z, 5, seed=0))
    assert adjusted_rand_score(y, found[3]) == 1


def test_equal_rows_are_not_parted():
    assert list(merged_clusters(torch.ones(5, 2), 4, seed=0)) == []
    z = torch.eye(2)[[0, 0, 0, 1]]
    assert [count for count, _ in merged_clusters(z, 4, seed=0)] == [2]
