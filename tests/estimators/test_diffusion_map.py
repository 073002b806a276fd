"""The diffusion map of an estimator."""

import numpy as np
import pytest

from jsem_pyg.estimators import DiffusionMap


def ring(count, seed=0):
    angle = np.sort(np.random.default_rng(seed).uniform(0, 2 * np.pi, count))
    return np.stack([np.cos(angle), np.sin(angle)], axis=1), angle


def test_a_ring_becomes_a_ring_in_its_order():
    X, angle = ring(400)
    y = DiffusionMap(2, n_neighbors=8, t=0).fit_transform(X)
    assert y.shape == (400, 2)
    turned = np.unwrap(np.arctan2(y[:, 1], y[:, 0]))
    assert abs(np.corrcoef(turned, angle)[0, 1]) > 0.99


def test_columns_are_modes_of_the_random_walk_damped_by_time():
    X = np.random.default_rng(0).normal(size=(80, 3))
    still, flown = (DiffusionMap(3, t=t).fit(X) for t in (0.0, 5.0))
    assert np.all(np.diff(still.eigenvalues_) >= 0)
    assert still.eigenvalues_[0] > 0
    damped = still.embedding_ * np.exp(-5 * still.eigenvalues_)
    np.testing.assert_allclose(flown.embedding_, damped, rtol=1e-10)


def test_new_points_lie_among_their_neighbours():
    X, _ = ring(600)
    fitted = DiffusionMap(2, n_neighbors=8, random_state=0).fit(X[::2])
    np.testing.assert_array_equal(fitted.transform(X[:20:2]), fitted.embedding_[:10])
    new, whole = (
        fitted.transform(X[1::2]),
        (fitted.embedding_ + np.roll(fitted.embedding_, -1, 0)) / 2,
    )
    assert np.linalg.norm(new - whole) < 0.15 * np.linalg.norm(whole)
    one_by_one = np.concatenate([fitted.transform(row[None]) for row in X[1:9:2]])
    np.testing.assert_allclose(one_by_one, new[:4])


def test_parts_of_a_graph_and_rows_without_direction():
    X = np.eye(4)[np.repeat([0, 1], 30)] + 0.1 * np.random.default_rng(0).normal(size=(60, 4))
    X[7] = 0
    fitted = DiffusionMap(3, metric="cosine", scale=None, n_neighbors=5).fit(X)
    assert fitted.eigenvalues_.min() > 0
    assert abs(fitted.embedding_[7]).max() < 1e-12
    assert np.abs(fitted.transform(np.zeros((1, 4)))).max() < 1e-12


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"n_components": 0}, ValueError, "'n_components'"),
        ({"n_components": 50}, ValueError, "at most 49"),
        ({"t": "auto"}, TypeError, "'t'"),
        ({"t": -1.0}, ValueError, "'t'"),
    ],
)
def test_refuses_bad_parameters(options, error, match):
    X = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(error, match=match):
        DiffusionMap(**options).fit(X)
