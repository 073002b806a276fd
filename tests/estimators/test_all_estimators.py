"""What holds for heat, the clusterer and label spreading alike."""

import numpy as np
import pytest
import torch
from estimators.estimator_cases import (
    DIM,
    ESTIMATORS,
    NUM_FITTED,
    NUM_NEW,
    blobs,
    few_labels,
    of_fitted,
    say,
)
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jsem_pyg.estimators import (
    DiffusionClusterer,
    DiffusionLabelSpreading,
    HeatDiffusion,
    neighbor_estimator,
)

X, Y = blobs(NUM_FITTED)
X_NEW, Y_NEW = blobs(NUM_NEW, seed=1)


@pytest.fixture(params=ESTIMATORS)
def estimator(request):
    return clone(ESTIMATORS[request.param])


def fitted(estimator, points=X):
    return estimator.fit(points, few_labels(Y))


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_a_result_does_not_depend_on_the_others_in_the_call(estimator, metric, monkeypatch):
    fitted(estimator.set_params(metric=metric))
    mixed = np.concatenate([X_NEW, X[:5]])
    together = say(estimator, mixed)
    alone = np.concatenate([say(estimator, mixed[[each]]) for each in range(len(mixed))])
    assert np.array_equal(together, alone)
    order = np.random.default_rng(0).permutation(len(mixed))
    monkeypatch.setattr(neighbor_estimator, "CHUNK", 7)
    assert np.array_equal(say(estimator, mixed[order]), together[order])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fitted_points_are_what_they_became_in_either_precision(estimator, dtype):
    other = np.float64 if dtype == np.float32 else np.float32
    points = X + np.float32(3)
    fitted(estimator.set_params(metric="l2", scale="robust"), points.astype(dtype))
    assert of_fitted(estimator).dtype == say(estimator, X_NEW).dtype == dtype
    for given in (dtype, other):
        assert np.array_equal(say(estimator, points.astype(given)), of_fitted(estimator))


def test_equal_points_are_the_first_of_them(estimator):
    copied, copies = X.copy(), slice(40, 52)  # more than have room among each other's neighbours
    copied[copies] = copied[7]
    fitted(estimator, copied)
    said, known = say(estimator, -0.0 + copied), of_fitted(estimator)
    assert (said[copies] == known[7]).all()
    assert not (known[copies] == known[7]).all()
    assert np.array_equal(said[:40], known[:40])


def test_rows_of_zeros_are_joined_to_nobody_under_the_cosine(estimator):
    holey = X.copy()
    holey[[10, 20]] = 0
    fitted(estimator, holey)
    zeros = np.zeros((2, DIM), np.float32)
    if isinstance(estimator, HeatDiffusion):
        assert np.array_equal(estimator.embedding_[[10, 20]], zeros)
        assert np.array_equal(estimator.transform(zeros), zeros)
        without = clone(estimator).fit(np.delete(X, [10, 20], axis=0))
        np.testing.assert_allclose(estimator.transform(X_NEW), without.transform(X_NEW), atol=1e-5)
    else:
        np.testing.assert_allclose(say(estimator, zeros)[0], of_fitted(estimator)[10], atol=1e-6)
        assert not np.isin(estimator.edge_index_, [10, 20]).any()
    with pytest.raises(ValueError, match="'X' to have three rows or more that are not zero"):
        estimator.fit(np.zeros((NUM_FITTED, DIM)), few_labels(Y))


def test_arrays_of_users_may_be_changed_later(estimator):
    mine = X.copy()
    fitted(estimator, mine)
    points = np.concatenate([X[:5], X_NEW])
    known = say(estimator, points).copy()
    mine[:] = 0
    say(estimator, points)[:] = 0
    for name, value in vars(estimator).items():
        if name.endswith("_") and isinstance(value, np.ndarray):
            value[:] = 0
    assert np.array_equal(say(estimator, points), known)


def test_threads_are_left_alone_and_autocast_changes_nothing(estimator):
    before = torch.get_num_threads()
    known = say(fitted(estimator), X_NEW)
    assert torch.get_num_threads() == before
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert np.array_equal(say(fitted(clone(estimator)), X_NEW), known)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_neighbors", 0),
        ("metric", "manhattan"),
        ("scale", "minmax"),
        ("kernel", "nonsense"),
        ("t", -1.0),
    ],
)
def test_parameters_that_cannot_be_are_refused_by_name(estimator, name, value):
    with pytest.raises((TypeError, ValueError), match=f"'{name}'"):
        fitted(estimator.set_params(**{name: value}))


def test_nothing_is_said_before_it_is_fitted_or_after_a_fit_that_was_stopped(
    estimator, monkeypatch
):
    with pytest.raises(NotFittedError):
        say(estimator, X)
    fitted(estimator)

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("jsem_pyg.estimators.neighbor_estimator.FittedGraph", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fitted(estimator, 1000 * X)
    with pytest.raises(NotFittedError):
        say(estimator, X)


def test_they_work_in_pipelines_and_searches():
    model = make_pipeline(StandardScaler(), HeatDiffusion(8), LogisticRegression())
    search = GridSearchCV(model, {"heatdiffusion__t": [0.0, 2.0]}, cv=3).fit(X, Y)
    assert search.score(X_NEW, Y_NEW) > 0.7
    spreading = DiffusionLabelSpreading(t=2.0, random_state=0)
    search = GridSearchCV(spreading, {"n_neighbors": [5, 8]}, cv=3).fit(X, Y)
    assert search.score(X_NEW, Y_NEW) > 0.7
    clusters = make_pipeline(HeatDiffusion(8, t=1.0), DiffusionClusterer(3, t=1.0, random_state=0))
    assert clusters.fit_predict(X).shape == (NUM_FITTED,)
    assert clusters.predict(X_NEW).shape == (NUM_NEW,)
