import logging
import pickle

import numpy as np
import pytest
import torch
from estimators.estimator_cases import NUM_FITTED, NUM_NEW, blobs
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from torch_geometric.data import Data

from jsem_pyg.estimators import DiffusionClusterer
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.training import fit

X, Y = blobs(NUM_FITTED)
X_NEW, Y_NEW = blobs(NUM_NEW, seed=1)


def test_it_is_self_training_on_the_neighbour_graph():
    points, _ = blobs(NUM_FITTED, spread=0.4)  # clusters that overlap
    clusterer = DiffusionClusterer(3, n_neighbors=8, metric="cosine", random_state=4).fit(points)
    x = torch.from_numpy(points)
    edge_index, edge_weight = knn_graph(x, 8)
    data = Data(x=x, edge_index=edge_index, edge_weight=edge_weight)
    model = fit(DiffusionClassifier(x.size(1), 3), data, seed=4).model
    p = model(x, edge_index, edge_weight).detach()
    np.testing.assert_array_equal(clusterer.labels_, p.argmax(-1))
    np.testing.assert_allclose(clusterer.probabilities_, p, atol=1e-4)
    np.testing.assert_array_equal(clusterer.edge_index_, edge_index)
    np.testing.assert_array_equal(clusterer.edge_weight_, edge_weight)
    expected = model.conductances(x, edge_index, edge_weight).detach()
    np.testing.assert_allclose(clusterer.conductances_, expected, atol=1e-4)


def test_groups_that_lie_apart_are_counted():
    points, _ = blobs(NUM_FITTED, spread=0.1)
    clusterer = DiffusionClusterer(n_neighbors=8, random_state=0).fit(points)
    assert clusterer.n_clusters_ == len(np.unique(clusterer.labels_)) == 3
    assert max(clusterer.curve_.values()) == clusterer.curve_[3]
    assert max(DiffusionClusterer(max_clusters=5, n_neighbors=8, t=1.0).fit(X).curve_) == 5
    assert DiffusionClusterer(3, t=1.0).fit(X).curve_ is None


@pytest.mark.parametrize(
    ("sizes", "columns"),
    [
        ((450, 30, 20), 2),
        ((450, 30, 20), 1),
        ((1000, 20), 1),
        ((500, 25), 6),
        ((300, 40, 30), 10),
        ((400, 40), 100),
    ],
)
@pytest.mark.parametrize("number", ["given", "auto"])
def test_clusters_of_unequal_size_are_found(sizes, columns, number):
    draw = np.random.default_rng(0)
    y = np.repeat(np.arange(len(sizes)), sizes)
    points = draw.normal(size=(len(y), columns))
    points[:, 0] += 12 * (y == 1)
    points[:, -1] += 12 * (y == 2) * (2 if columns == 1 else 1)
    points, y = points[order := draw.permutation(len(y))], y[order]
    clusterer = DiffusionClusterer(len(sizes) if number == "given" else "auto", random_state=0)
    assert adjusted_rand_score(y, clusterer.fit(points).labels_) > 0.98
    assert clusterer.distinctness_ > 0.9
    assert columns < 50 or len(DiffusionClusterer().fit(1e-20 * points).labels_) == len(y)


@pytest.mark.parametrize("apart", [8, 12])
def test_columns_of_noise_hide_no_clusters(apart):
    """The scale makes the column of two groups the narrowest."""
    draw, y = np.random.default_rng(5), np.arange(600) % 2
    points = np.c_[apart * y + draw.normal(size=600), draw.normal(size=(600, 4))]
    clusterer = DiffusionClusterer(scale="robust", random_state=0).fit(points)
    assert clusterer.n_clusters_ == 2
    assert adjusted_rand_score(y, clusterer.labels_) > 0.9


def test_clusters_with_hardly_a_link_between_them_are_counted():
    """Their modes, of eigenvalues near zero, hid all others, which ended in an IndexError."""
    draw, place = np.random.default_rng([0, 11]), [[0, 0], [9, 0], [0, 9], [18, 0], [0, 18]]
    y = np.repeat(np.arange(5), 150)
    x = np.array(place)[y] + draw.normal(size=(750, 2))
    assert adjusted_rand_score(y, DiffusionClusterer(random_state=0).fit(x).labels_) > 0.98


def test_one_cloud_is_one_cluster_and_says_so():
    points = np.random.default_rng(0).normal(size=(300, 5))
    clusterer = DiffusionClusterer(random_state=0).fit(points)
    assert clusterer.n_clusters_ == 1
    assert clusterer.distinctness_ < 1 / 3
    assert clusterer.predict(points[:2] + 0.1).tolist() == [0, 0]
    assert DiffusionClusterer(3, random_state=0).fit(points).distinctness_ < 1 / 3


@pytest.mark.parametrize("kind", ["ten points", "counts", "answers"])
def test_few_points_and_few_values_are_one_cluster(kind):
    """The graph of counts falls into their values, and ten points leave gaps by chance."""
    for seed in range(2):
        draw = np.random.default_rng(seed)
        points = {
            "ten points": draw.normal(size=(10, 2 + seed)),
            "counts": draw.poisson(3, size=(200, 1 + seed)),
            "answers": np.clip(np.round(3 + draw.normal(size=(200, 2 + seed))), 1, 5),
        }[kind].astype(float)
        assert DiffusionClusterer(random_state=0).fit(points).n_clusters_ == 1


@pytest.mark.parametrize("columns", [1, 3])
def test_groups_of_counts_and_of_five_points_are_found(columns):
    draw, y = np.random.default_rng(0), np.arange(300) % 3 == 0
    few = draw.normal(size=(10, columns)) + 12 * (np.arange(10) < 5)[:, None]
    found = [DiffusionClusterer(number, random_state=0).fit(few) for number in ("auto", 2)]
    assert all(each.n_clusters_ == 2 and each.distinctness_ > 1 / 3 for each in found)
    counts = draw.poisson(np.where(y, 40, 2)[:, None], (300, columns)).astype(float)
    assert adjusted_rand_score(y, DiffusionClusterer(random_state=0).fit(counts).labels_) > 0.98
    few = draw.normal(size=(28, 100))
    few[:3], few[14:, 0] = 0, few[14:, 0] + 30  # rows of zeros have no direction
    assert DiffusionClusterer(random_state=0).fit(1e-10 * few).n_neighbors_ == 13  # by length


def test_a_cluster_without_points_is_no_cluster(monkeypatch, caplog):
    found = lambda *_: torch.from_numpy(Y) + 1  # noqa: E731
    monkeypatch.setattr("jsem_pyg.training.clusters.SpectralClusters.instead_of", found)
    with caplog.at_level(logging.WARNING):
        clusterer = DiffusionClusterer(4, n_neighbors=8, t=2.0, random_state=0).fit(X)
    assert "1 of 4 clusters have no point left" in caplog.text
    assert clusterer.n_clusters_ == 3
    assert np.unique(clusterer.labels_).tolist() == [0, 1, 2]
    assert clusterer.probabilities_.shape == (NUM_FITTED, 3)
    np.testing.assert_allclose(clusterer.predict_proba(X_NEW).sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(clusterer.predict(X), clusterer.labels_)


def test_unseen_digits_go_where_they_would_have_gone():
    X, y = load_digits(return_X_y=True)
    clusterer = DiffusionClusterer(10, t=5.0, random_state=0).fit(X[:700])
    assert adjusted_rand_score(y[:700], clusterer.labels_) > 0.7
    assert adjusted_rand_score(y[700:900], clusterer.predict(X[700:900])) > 0.7


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": "many"}, "n_clusters"),
        ({"n_clusters": NUM_FITTED + 1}, "n_clusters"),
        ({"max_clusters": 0}, "max_clusters"),
        ({"t": 0.0}, "t"),
    ],
)
def test_parameters_that_cannot_be_are_refused_by_name(options, name):
    with pytest.raises((TypeError, ValueError), match=f"'{name}'"):
        DiffusionClusterer(**options).fit(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_saved_without_a_pickle_and_loaded_to_the_last_bit(dtype, tmp_path, monkeypatch):
    path = tmp_path / "clusters.safetensors"
    points = X.astype(dtype)
    clusterer = DiffusionClusterer(n_neighbors=8, t=2.0, max_clusters=4, random_state=0)
    clusterer.fit(points).save(path)
    monkeypatch.setattr(pickle, "loads", None)
    state = torch.get_rng_state()
    again = DiffusionClusterer.load(path)
    assert torch.equal(torch.get_rng_state(), state)
    assert again.get_params() == clusterer.get_params()
    np.testing.assert_equal(again.tree_.levels, clusterer.tree_.levels)
    np.testing.assert_equal(again.tree_.linkage, clusterer.tree_.linkage)
    np.testing.assert_equal(again.cut(1), clusterer.cut(1))
    for name in (each for each in vars(clusterer) if each[-1] == "_" and each != "tree_"):
        np.testing.assert_equal(getattr(again, name), getattr(clusterer, name))
    for new in (points, X_NEW):
        np.testing.assert_array_equal(again.predict_proba(new), clusterer.predict_proba(new))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="clusters.safetensors"):
        DiffusionClusterer.load(path)
