import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import cut_tree, is_monotonic, is_valid_linkage
from sklearn.metrics import adjusted_rand_score
from torch_geometric.data import Data

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.estimators import DiffusionClusterer
from jsem_pyg.estimators.cluster_tree import TIME, ClusterLevel, ClusterTree
from jsem_pyg.graph import GraphStructure
from jsem_pyg.transforms import FaissKNNGraph

INNER = np.arange(240) // 40
OUTER = np.arange(240) // 80


def nested_points():
    """Three groups of two parts each."""
    x = np.eye(9)[OUTER] + 0.45 * np.eye(9)[3 + INNER]
    return x + 0.1 * np.random.default_rng(0).normal(size=(240, 9))


def graph_of(x, k=10):
    data = FaissKNNGraph(k)(Data(x=torch.from_numpy(x)))
    return GraphStructure(data.edge_index, len(x)), data.edge_weight


def same(one, other):
    return adjusted_rand_score(one, other) == 1


def is_nested(fine, coarse):
    return len(np.unique(np.stack([fine, coarse]), axis=1)[0]) == len(np.unique(fine))


@pytest.fixture(scope="module")
def tree():
    structure, weight = graph_of(nested_points())
    return ClusterTree([ClusterLevel(6, 1.0, INNER)], structure, weight)


def test_parts_are_merged_into_their_groups_first(tree):
    assert same(tree.cut(6), INNER)
    assert same(tree.cut(3), OUTER)
    assert tree.cut(1).tolist() == [0] * 240
    for count in range(1, 6):
        assert is_nested(tree.cut(count + 1), tree.cut(count))
        assert len(np.unique(tree.cut(count))) == count


def test_the_linkage_is_scipys_and_cuts_alike(tree):
    assert is_valid_linkage(tree.linkage)
    assert is_monotonic(tree.linkage)
    assert tree.linkage[-1, 3] == 6
    for count in range(1, 7):
        assert same(cut_tree(tree.linkage, count)[tree.finest, 0], tree.cut(count))


def test_heights_are_average_linkage_of_heat():
    structure, weight = graph_of(nested_points())
    tree = ClusterTree([ClusterLevel(6, 1.0, INNER)], structure, weight)
    kernel = heat_diffusion(torch.eye(240).double(), structure, weight.double(), TIME)
    share = torch.zeros(240).double().index_add_(0, structure.edges[0], weight.double())
    share /= share.sum()
    one, other = torch.from_numpy(INNER == 0), torch.from_numpy(INNER == 1)
    heat = share[one].sqrt() @ kernel[one][:, other] @ share[other].sqrt()
    affinity = heat / (share[one].sum() * share[other].sum())
    row = tree.linkage[[set(row[:2]) == {0, 1} for row in tree.linkage]]
    assert row[0, 2] == pytest.approx(float(1 / (1 + affinity)), rel=1e-4)


def test_components_without_heat_between_them_and_isolated_points_are_merged_last():
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    structure = GraphStructure(edges, 5)
    labels = np.array([0, 1, 2, 2, 3])
    tree = ClusterTree([ClusterLevel(4, 1.0, labels)], structure, torch.ones(4))
    assert same(tree.cut(3), [0, 0, 1, 1, 2])
    assert tree.linkage[1:, 2].tolist() == [1, 1]
    assert np.isfinite(tree.linkage).all()


def test_the_clusterer_offers_levels_and_predicts_by_the_most_persistent():
    x = np.eye(2)[np.arange(120) // 60] + 0.25 * np.random.default_rng(0).normal(size=(120, 2))
    clusterer = DiffusionClusterer(n_neighbors=8, max_clusters=9, t=2.0, random_state=0).fit(x)
    tree = clusterer.tree_
    first, *others = tree.levels
    assert others
    assert all(0 <= level.persistence <= 1 for level in tree.levels)
    assert others == sorted(others, key=lambda level: -level.persistence)
    np.testing.assert_array_equal(first.labels, clusterer.labels_)
    np.testing.assert_array_equal(clusterer.cut(first.n_clusters), clusterer.labels_)
    np.testing.assert_array_equal(clusterer.predict(x), clusterer.labels_)
    assert len(np.unique(clusterer.cut(9))) == 9  # finer than any level
    ours = DiffusionClusterer(first.n_clusters, n_neighbors=8, t=2.0, random_state=0).fit(x)
    np.testing.assert_array_equal(ours.labels_, clusterer.labels_)


@pytest.mark.parametrize(("number", "message"), [(7, "to be at most 6"), (0, "a positive integer")])
def test_cuts_that_cannot_be_are_refused(tree, number, message):
    with pytest.raises(ValueError, match=f"'n_clusters' .*{message}"):
        tree.cut(number)
