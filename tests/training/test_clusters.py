import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import cut_tree, linkage
from sklearn.cluster import KMeans

from jsem_pyg.training import clusters
from jsem_pyg.training.clusters import k_means, merged_clusters


def blobs(count=600, spread=0.6):
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(count) % 6
    return 3 * torch.eye(6)[y] + spread * torch.randn(count, 6, generator=draw), y


@pytest.fixture
def few_rows(monkeypatch):
    """As if few rows were many."""
    monkeypatch.setattr(clusters, "MOST_ROWS", 100)
    monkeypatch.setattr(clusters, "SAMPLE_ROWS", 60)
    monkeypatch.setattr(clusters, "SAMPLE_ROWS_A_CLUSTER", 20)


def test_many_rows_are_clustered_as_well(few_rows):
    for spread in (0.6, 1.0):
        z, _ = blobs(spread=spread)
        whole = min(KMeans(6, random_state=seed).fit(z.numpy()).inertia_ for seed in range(5))
        for seed in range(3):
            found = k_means(z, 6, seed)
            assert found.inertia_ < 1.01 * whole
            assert found.n_init == 1  # it settled on all rows, from the best start
            assert isinstance(found.init, np.ndarray)  # on a sample
            assert len(found.labels_) == len(z)
            again = k_means(z, 6, seed)
            assert np.array_equal(found.cluster_centers_, again.cluster_centers_)


# ---------------------------------------------------------------- every number of clusters


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
        center, size = clusters._merge_nearest(center, size)
        labels = cut_tree(tree, len(center))[:, 0]
        expected = np.array([z[labels == label].mean(0) for label in np.unique(labels)])
        np.testing.assert_allclose(np.sort(center, axis=0), np.sort(expected, axis=0))
        assert sorted(size) == sorted(np.bincount(labels))
