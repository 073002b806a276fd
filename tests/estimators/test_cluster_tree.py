import numpy as np
import pytest
from scipy.cluster.hierarchy import cut_tree, is_monotonic, is_valid_linkage
from sklearn.metrics import adjusted_rand_score

from jsem_pyg.estimators import DiffusionClusterer

INNER = np.arange(240) // 40
OUTER = np.arange(240) // 80


def nested_points():
    """Three groups of two parts each."""
    x = np.eye(9)[OUTER] + 0.45 * np.eye(9)[3 + INNER]
    return x + 0.1 * np.random.default_rng(0).normal(size=(240, 9))


def same(one, other):
    return adjusted_rand_score(one, other) == 1


def is_nested(fine, coarse):
    return len(np.unique(np.stack([fine, coarse]), axis=1)[0]) == len(np.unique(fine))


@pytest.fixture(scope="module")
def tree():
    found = DiffusionClusterer(6, n_neighbors=10, metric="cosine", t=2.0, random_state=0)
    return found.fit(nested_points()).tree_


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


def test_the_clusterer_offers_levels_and_predicts_by_the_most_persistent():
    x = np.eye(2)[np.arange(120) // 60] + 0.25 * np.random.default_rng(0).normal(size=(120, 2))
    clusterer = DiffusionClusterer(n_neighbors=8, max_clusters=9, t=2.0, random_state=0).fit(x)
    tree = clusterer.tree_
    first, *others = tree.levels
    assert others
    assert all(0 <= level.persistence <= 1 for level in tree.levels)
    assert others == sorted(others, key=lambda level: -level.persistence)
    np.testing.assert_array_equal(first.labels, clusterer.labels_)
    for level in tree.levels:
        np.testing.assert_array_equal(clusterer.cut(level.n_clusters), level.labels)
    np.testing.assert_array_equal(clusterer.predict(x), clusterer.labels_)
    assert len(np.unique(clusterer.cut(9))) == 9  # finer than any level
    ours = DiffusionClusterer(first.n_clusters, n_neighbors=8, t=2.0, random_state=0).fit(x)
    np.testing.assert_array_equal(ours.labels_, clusterer.labels_)


@pytest.mark.parametrize(("number", "message"), [(7, "to be at most 6"), (0, "a positive integer")])
def test_cuts_that_cannot_be_are_refused(tree, number, message):
    with pytest.raises(ValueError, match=f"'n_clusters' .*{message}"):
        tree.cut(number)
