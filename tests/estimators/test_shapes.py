"""Clusters of any shape, in any number of columns, wherever they lie."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from jsem_pyg.estimators import DiffusionClusterer, DiffusionLabelSpreading

RNG = np.random.default_rng(7)


def groups(centers, each=60):
    """Points around centres [K, D], deviation one, and the group of each."""
    centers = np.asarray(centers, dtype=float).reshape(len(centers), -1)
    y = np.repeat(np.arange(len(centers)), each)
    return centers[y] + RNG.normal(size=(len(y), centers.shape[1])), y


def spirals():
    y = np.repeat([0, 1], 300)
    angle = 3 * np.pi * np.sqrt(RNG.uniform(0.1, 1, 600))
    turned = angle + np.pi * y
    return np.stack([angle * np.cos(turned), angle * np.sin(turned)], axis=1), y


def arms():
    draw = np.random.default_rng(1)
    y, way = np.arange(900) % 3, 0.8 + 6.6 * np.sqrt(draw.uniform(size=900))
    angle = way + 2 * np.pi * y / 3
    x = way[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    return x + 0.15 * draw.normal(size=x.shape), y


SHAPES = {
    "moons": make_moons(300, noise=0.05, random_state=10),
    "circles": make_circles(300, factor=0.4, noise=0.04, random_state=3),
    "spirals": spirals(),
    "three arms": arms(),
    "one column": groups([0, 50, 100], 40),
    "a wide column": groups([[0, 0], [60, 0], [120, 0]], 40),
    "a cross": groups([[0, 0], [9, 0], [-9, 0], [0, 9], [0, -9]], 40),
    "three columns": groups([[0, 0, 0], [40, 0, 0], [80, 0, 0], [120, 0, 0]], 40),
    "unequal": (
        np.concatenate([groups([[0, 0]], 300)[0], groups([[9, 0]], 80)[0]]),
        np.repeat([0, 1], [300, 80]),
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_counted_and_clustered(name):
    x, y = SHAPES[name]
    clusterer = DiffusionClusterer(random_state=0).fit(x)
    assert clusterer.n_clusters_ == len(np.unique(y))
    assert adjusted_rand_score(y, clusterer.labels_) > 0.95
    assert adjusted_rand_score(y, clusterer.predict(x + 1e-3)) > 0.95


@pytest.mark.parametrize(
    ("name", "number"), [("circles", 2), ("a cross", 5), ("one column", 3), ("moons", "auto")]
)
def test_a_shift_and_a_turn_change_nothing(name, number):
    x, y = SHAPES[name]
    turn = np.linalg.qr(RNG.normal(size=(x.shape[1], x.shape[1])))[0]
    for moved in (x + 1000, x @ turn - 5000):
        found = DiffusionClusterer(number, random_state=0).fit_predict(moved)
        assert adjusted_rand_score(y, found) > 0.95


def test_a_spectral_clustering_is_saved_with_names_of_columns(tmp_path):
    x, _ = SHAPES["circles"]
    frame = pd.DataFrame(x, columns=["east", "north"])
    clusterer = DiffusionClusterer(2, random_state=0).fit(frame)
    assert clusterer.by_graph_
    assert clusterer.cluster_names_ == [f"all columns in the middle ({i})" for i in range(2)]
    clusterer.save(tmp_path / "circles")
    again = DiffusionClusterer.load(tmp_path / "circles")
    assert again.by_graph_
    assert again.cluster_names_ == clusterer.cluster_names_
    assert again.feature_names_in_.tolist() == ["east", "north"]
    new = pd.DataFrame(x[:20] * 1.01, columns=["east", "north"])
    np.testing.assert_array_equal(again.predict_proba(new), clusterer.predict_proba(new))


def test_the_number_asked_for_is_the_number_given():
    x = RNG.normal(size=(120, 1))
    for count in (3, 7):
        assert DiffusionClusterer(count, random_state=0).fit(x).n_clusters_ == count
    with pytest.raises(ValueError, match=r"points that differ \(got 3 for 2 of 40 points"):
        DiffusionClusterer(3).fit(np.repeat([[0.0], [1.0]], 20, axis=0))


@pytest.mark.parametrize("name", ["moons", "spirals", "one column", "unequal"])
def test_few_labels_spread_over_shapes(name):
    x, y = SHAPES[name]
    known = np.full(len(y), -1)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        known[members[:: len(members) // 3]] = label
    model = DiffusionLabelSpreading(random_state=0).fit(x, known)
    assert (model.transduction_ == y).mean() > 0.99
    assert (model.predict(x + 1e-3) == y).mean() > 0.99


def test_what_no_label_reaches_can_be_of_any_class():
    x, y = groups([[0, 0], [40, 0], [0, 900]])
    known = np.full(len(y), -1)
    known[[0, 1, 2, 60, 61]] = y[[0, 1, 2, 60, 61]]
    model = DiffusionLabelSpreading(random_state=0).fit(x, known)
    assert (model.transduction_ == y)[:120].all()
    np.testing.assert_allclose(model.label_distributions_[120:], [[0.6, 0.4]] * 60)
    np.testing.assert_allclose(model.predict_proba([[0, 905.0]]), [[0.6, 0.4]])
    assert model.predict_proba([[0.1, 0.1]])[0, 0] > 0.9
