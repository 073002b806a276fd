import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import cut_tree, linkage
from sklearn.cluster import KMeans

from jsem_pyg.neighbors import knn_graph
from jsem_pyg.training import clusters
from jsem_pyg.training.clusters import (
    SpectralClusters,
    is_better,
    k_means,
    merged_clusters,
    valleys,
)
from jsem_pyg.training.training_graph import TrainingGraph


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


# ---------------------------------------------------------------- valleys


def two_sizes(sizes=(300, 20), apart=8.0, channels=2):
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    x = torch.randn(len(y), channels, generator=draw)
    x[:, 0] += apart * y
    return TrainingGraph(x, *knn_graph(x, 15, "l2", progress=False)), y


@pytest.mark.parametrize("weighted", [True, False])
def test_a_valley_is_the_highest_cut_on_the_way_out_over_the_last(weighted):
    graph, _ = two_sizes((40, 25), 3.0)
    if not weighted:
        graph = TrainingGraph(graph.x, graph.edge_index)
    labels = torch.arange(65) % 3
    labels[:30] = 0
    n = len(labels)
    weight = torch.ones(graph.edge_index.size(1)) if not weighted else graph.edge_weight
    dense = torch.zeros(n, n, dtype=torch.float64)
    dense[graph.edge_index[0], graph.edge_index[1]] = weight.double()
    degree = dense.sum(1)
    root = degree.sqrt()
    laplacian = torch.eye(n) - dense / root[:, None] / root
    expected = []
    for c in range(3):
        member = labels == c
        cut = dense[member][:, ~member].sum()
        time = float((degree[member].sum() / cut) ** 2)
        time = 4 ** round(np.log2(min(max(time, 1), 1000)) / 2)
        heat = torch.matrix_exp(-time * laplacian) @ (member * root) / root
        order = heat.masked_fill(~member, -1).argsort(descending=True)[: int(member.sum())]
        cuts = [
            dense[order[:j]].sum() - dense[order[:j]][:, order[:j]].sum()
            for j in range(1, len(order) + 1)
        ]
        expected.append(float(max(cuts) / cuts[-1]))
    assert valleys(graph, labels).tolist() == pytest.approx(expected, rel=1e-4)


def test_a_valley_lies_around_clusters_of_any_size_and_not_within_one():
    graph, y = two_sizes()
    assert float(valleys(graph, y).min()) > 100
    half = (graph.x[:, 1] > 0).long()
    assert float(valleys(graph, half).max()) < 4
    assert is_better(y, half, graph)
    assert not is_better(half, y, graph)


def test_the_end_of_a_tail_is_no_cluster():
    draw = torch.Generator().manual_seed(0)
    x = torch.cat([torch.randn(200, 2, generator=draw), torch.tensor([[60.0, 0.0]] * 3)])
    x[-3:] += 0.1 * torch.randn(3, 2, generator=draw)
    x[:100, 1] += 12
    graph = TrainingGraph(x, *knn_graph(x, 15, "l2", progress=False))
    modes = SpectralClusters(graph, 5, seed=0)
    found = modes.labels(2)
    assert sorted(torch.bincount(found).tolist()) in ([100, 103], [100, 103][::-1])
    assert list(modes.apart) == [2]
