"""What holds for all three estimators."""

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import joblib
import numpy as np
import pandas as pd
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
from scipy.sparse import csc_array, csr_matrix
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

from jsem_pyg.estimators import (
    DiffusionClusterer,
    DiffusionLabelSpreading,
    HeatDiffusion,
    fitted_graph,
)
from jsem_pyg.estimators.neighbor_estimator import NeighborEstimator

X, Y = blobs(NUM_FITTED)
X_NEW, Y_NEW = blobs(NUM_NEW, seed=1)


@pytest.fixture(params=ESTIMATORS)
def estimator(request):
    return clone(ESTIMATORS[request.param])


def fitted(estimator, points=X):
    return estimator.fit(points, few_labels(Y))


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_what_is_said_of_a_point_does_not_depend_on_the_others_in_the_call(estimator, metric):
    fitted(estimator.set_params(metric=metric))
    mixed = np.concatenate([X_NEW, X[:5]])
    together = say(estimator, mixed)
    alone = np.concatenate([say(estimator, mixed[[each]]) for each in range(len(mixed))])
    assert np.array_equal(together, alone)
    order = np.random.default_rng(0).permutation(len(mixed))
    assert np.array_equal(say(estimator, mixed[order]), together[order])


def test_copies_of_a_fitted_point_do_not_make_it_depend_on_them(estimator):
    copied = np.concatenate([X, np.repeat(X[:1], 60, axis=0)])
    estimator.fit(copied, few_labels(np.append(Y, np.repeat(Y[0], 60))))
    near = X[:1] + np.float32(1e-4) * np.random.default_rng(0).normal(size=(30, DIM)).astype("f4")
    together = say(estimator, near)
    assert np.array_equal(together, np.concatenate([say(estimator, row[None]) for row in near]))


def test_fitted_points_are_what_they_became(estimator):
    fitted(estimator)
    assert np.array_equal(say(estimator, X), of_fitted(estimator))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fitted_points_are_known_in_another_precision(estimator, dtype):
    other = np.float64 if dtype == np.float32 else np.float32
    points = X + np.float32(3)
    fitted(estimator.set_params(metric="l2", scale="robust"), points.astype(dtype))
    assert np.array_equal(say(estimator, points.astype(other)), of_fitted(estimator))


def test_many_points_are_placed_part_by_part(estimator, monkeypatch):
    fitted(estimator)
    at_once = say(estimator, np.concatenate([X_NEW, X]))
    monkeypatch.setattr(fitted_graph, "CHUNK", 7)
    assert np.array_equal(say(estimator, np.concatenate([X_NEW, X])), at_once)


def test_equal_points_are_the_first_of_them(estimator):
    copied, copies = X.copy(), slice(40, 52)  # more than have room among each other's neighbours
    copied[copies] = copied[7]
    fitted(estimator, copied)
    said, known = say(estimator, copied), of_fitted(estimator)
    assert (said[copies] == known[7]).all()
    assert not (known[copies] == known[7]).all()
    assert np.array_equal(said[:40], known[:40])


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_fitted_points_are_known_among_many_that_are_as_near(estimator, metric):
    draw = np.random.default_rng(0)
    collinear = np.repeat(draw.normal(size=(8, 6)), 30, 0) * draw.uniform(0.5, 5, (240, 1))
    estimator.set_params(metric=metric, n_neighbors=5)
    estimator.fit(collinear, few_labels(np.arange(240) % 3))
    assert np.array_equal(say(estimator, collinear), of_fitted(estimator))
    assert np.array_equal(say(estimator, -0.0 + collinear[200:]), of_fitted(estimator)[200:])


def test_points_near_to_fitted_ones_become_nearly_the_same(estimator):
    fitted(estimator)
    said, known = say(estimator, X + np.float32(1e-4)), of_fitted(estimator)
    unlabelled = slice(6, None)  # a point beside a labelled one has no label
    assert np.abs(said - known)[unlabelled].max() < 0.15
    assert np.abs(said - known)[unlabelled].mean() < 0.03
    assert not np.array_equal(said, known)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float32_and_float64_stay_what_they_are(estimator, dtype):
    fitted(estimator, X.astype(dtype))
    for new in (X, X_NEW.astype(np.float32), X_NEW.astype(np.float64)):
        assert say(estimator, new).dtype == of_fitted(estimator).dtype == dtype
    reference = say(fitted(clone(estimator)), X_NEW)
    np.testing.assert_allclose(say(estimator, X_NEW.astype(dtype)), reference, atol=1e-3)


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
        of_nodes, found = of_fitted(estimator)[10], say(estimator, zeros)[0]
        np.testing.assert_allclose(found, of_nodes, atol=1e-6)
        assert not np.isin(estimator.edge_index_, [10, 20]).any()
    with pytest.raises(ValueError, match="'X' to have three rows or more that are not zero"):
        estimator.fit(np.zeros((NUM_FITTED, DIM)), few_labels(Y))


def test_wide_sparse_points_are_reduced_first(estimator):
    dense = np.random.default_rng(0).poisson(0.3, size=(NUM_FITTED, 40)).astype(float)
    estimator.set_params(n_components=5)
    sparse = fitted(estimator, csr_matrix(dense))
    svd = TruncatedSVD(5, random_state=0).fit(csr_matrix(dense))
    by_hand = fitted(clone(estimator), svd.transform(csr_matrix(dense)))
    np.testing.assert_allclose(of_fitted(sparse), of_fitted(by_hand), rtol=1e-12)
    new = np.random.default_rng(1).poisson(0.3, size=(4, 40)).astype(float)
    by_svd = say(by_hand, svd.transform(csr_matrix(new)))
    np.testing.assert_allclose(say(sparse, csc_array(new)), by_svd, rtol=1e-12)
    assert sparse.n_features_in_ == 40
    alone = [say(sparse, row[None]) for row in new]
    np.testing.assert_allclose(say(sparse, new), np.concatenate(alone), rtol=1e-12)
    np.testing.assert_allclose(say(sparse, new), say(sparse, csr_matrix(new)), rtol=1e-12)


def test_sparse_points_are_the_same_in_any_order_and_precision(estimator):
    estimator = clone(estimator).set_params(n_components=4)
    rng = np.random.default_rng(1)
    dense = np.where(rng.random((len(X), 40)) < 0.3, rng.normal(size=(len(X), 40)), 0)
    dense = dense.astype(np.float32)
    product = csr_matrix(dense)
    for row in range(len(X)):  # as SciPy leaves them after a product
        part = slice(*product.indptr[row : row + 2])
        product.indices[part] = product.indices[part][::-1]
        product.data[part] = product.data[part][::-1]
    product.has_sorted_indices = False
    indices = product.indices.copy()
    model = fitted(estimator, product)
    assert np.array_equal(product.indices, indices)
    for same in (product, dense, csr_matrix(dense), dense.astype(np.float64)):
        np.testing.assert_array_equal(say(model, same), of_fitted(model))


def test_narrow_sparse_points_are_what_they_are_dense(estimator):
    sparse = fitted(clone(estimator).set_params(n_components=DIM), csr_matrix(X))
    assert sparse.reducer_ is None
    np.testing.assert_array_equal(of_fitted(sparse), of_fitted(fitted(estimator)))
    np.testing.assert_array_equal(say(sparse, csr_matrix(X_NEW)), say(estimator, X_NEW))


def test_names_of_columns_are_remembered_and_compared(estimator):
    frame = pd.DataFrame(X, columns=list("abcdef"))
    fitted(estimator, frame)
    assert estimator.feature_names_in_.tolist() == list("abcdef")
    assert estimator.n_features_in_ == DIM
    with pytest.raises(ValueError, match="feature names should match"):
        say(estimator, frame.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="expecting 6 features"):
        say(estimator, X[:, :4])


def test_it_comes_back_from_joblib_without_a_word(estimator, tmp_path):
    said = say(fitted(estimator), X_NEW)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        joblib.dump(estimator, tmp_path / "estimator.joblib")
        again = joblib.load(tmp_path / "estimator.joblib")
    assert np.array_equal(say(again, X_NEW), said)
    assert np.array_equal(say(pickle.loads(pickle.dumps(again)), X), of_fitted(estimator))


def test_what_is_fitted_does_not_change_with_the_array_that_it_came_from(estimator):
    mine = X.copy()
    said = say(fitted(estimator, mine), X_NEW).copy()
    mine[:] = 0
    assert np.array_equal(say(estimator, X_NEW), said)


@pytest.mark.parametrize("seed", [0, np.int64(3), np.random.RandomState(0), None])
def test_any_random_state_will_do(estimator, seed):
    assert say(fitted(estimator.set_params(random_state=seed)), X_NEW).shape[0] == NUM_NEW


def test_the_generators_of_torch_and_numpy_are_left_alone(estimator):
    before, of_numpy = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    say(fitted(estimator), X_NEW)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], of_numpy)  # noqa: NPY002


def test_threads_are_as_many_as_allowed_and_then_as_before(estimator, monkeypatch):
    seen = []
    read = NeighborEstimator._to_tensor

    def to_tensor(*given, **options):
        seen.append(torch.get_num_threads())
        return read(*given, **options)

    monkeypatch.setattr(NeighborEstimator, "_to_tensor", to_tensor)
    before = torch.get_num_threads()
    said = say(fitted(clone(estimator).set_params(n_jobs=2)), X_NEW)
    np.testing.assert_allclose(say(fitted(estimator.set_params(n_jobs=1)), X_NEW), said, atol=1e-5)
    assert seen[0] == 2
    assert 1 in seen[1:]
    assert torch.get_num_threads() == before


def of_blas():
    """How many threads BLAS libraries with threads of their own take, for the whole process."""
    found = [each for each in threadpool_info() if each["user_api"] == "blas"]
    return [each["num_threads"] for each in found if each["threading_layer"] == "pthreads"]


def test_few_points_take_one_thread(estimator):
    torch.set_num_threads(3)  # until the test ends
    every = joblib.effective_n_jobs(-1)
    for n_jobs, rows, expected in [(None, 5_000, 1), (None, 5_001, 3), (2, 10, 2), (-1, 10, every)]:
        blas = of_blas()
        with estimator.set_params(n_jobs=n_jobs)._threads(csr_matrix((rows, 2))):
            assert torch.get_num_threads() == expected
            assert of_blas() == (blas if n_jobs is None else [expected] * len(blas))
        assert torch.get_num_threads() == 3
        assert of_blas() == blas


def test_threads_of_others_stay_as_they_are(estimator):
    """Two fits at a time: each limits itself, and neither what it or others find afterwards."""
    before, seen = torch.get_num_threads(), []
    both_in, first_out = Barrier(2), Event()

    def work(waits):
        mine = torch.get_num_threads()
        with estimator._threads([0, 1]):
            both_in.wait(60)
            if waits:
                first_out.wait(60)
            seen.append(torch.get_num_threads())
        first_out.set()
        seen.append(torch.get_num_threads() - mine)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (True, False)))
    assert sorted(seen) == [0, 0, 1, 1]
    assert torch.get_num_threads() == before


def test_neighbours_are_at_most_half_of_the_others(estimator):
    assert fitted(estimator).n_neighbors_ == 8
    few = clone(estimator).fit(X[:9], few_labels(Y[:9]))
    assert few.n_neighbors_ == 4
    with pytest.raises(ValueError, match="minimum of 3 is required"):
        clone(estimator).fit(X[:2], Y[:2])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_neighbors", 0),
        ("n_neighbors", 2.5),
        ("metric", "manhattan"),
        ("kernel", "nonsense"),
        ("t", -1.0),
        ("t", "soon"),
        ("n_components", 0),
    ],
)
def test_parameters_that_cannot_be_are_refused_by_name(estimator, name, value):
    with pytest.raises((TypeError, ValueError), match=f"'{name}'"):
        fitted(estimator.set_params(**{name: value}))


@pytest.mark.parametrize(
    ("bad", "said"), [(np.nan, "NaN.*To fix this.*SimpleImputer"), (np.inf, "infinity")]
)
def test_points_that_are_not_finite_are_refused(estimator, bad, said):
    holey = X.copy()
    holey[3, 2] = bad
    with pytest.raises(ValueError, match=said):
        fitted(clone(estimator), holey)
    fitted(estimator)
    with pytest.raises(ValueError, match=said):
        say(estimator, holey)


def test_nothing_is_said_before_it_is_fitted(estimator):
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


def test_they_are_loaded_where_they_are_asked_for():
    import jsem_pyg

    assert jsem_pyg.estimators.HeatDiffusion is HeatDiffusion
    assert jsem_pyg.__getattr__("estimators") is jsem_pyg.estimators
    with pytest.raises(AttributeError, match="nonsense"):
        jsem_pyg.nonsense  # noqa: B018


def test_fitted_attributes_may_be_changed(estimator):
    fitted(estimator)
    points = np.concatenate([X[:5], X_NEW])
    known = say(estimator, points).copy()
    found = [each for name, each in vars(estimator).items() if name[-1] == "_"]
    for array in found:
        if isinstance(array, np.ndarray):
            array[:] = 0
    assert np.array_equal(say(estimator, points), known)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_within_autocast_nothing_changes(name):
    X, y = blobs(NUM_FITTED)
    said = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            said.append(say(clone(ESTIMATORS[name]).fit(X, few_labels(y)), X[:9] + 0.1))
    assert np.array_equal(*said)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("read", [np.asarray, csr_matrix])
def test_tables_that_scikit_learn_is_set_to_return_are_not_read_inside(name, read):
    X, y = blobs(NUM_FITTED)
    X = read(np.pad(X, ((0, 0), (0, 2))))
    said = []
    for output in ("default", "pandas"):
        with config_context(transform_output=output):
            model = clone(ESTIMATORS[name]).set_params(n_components=2)
            said.append(np.asarray(say(model.fit(X, few_labels(y)), X[:9])))
    assert np.array_equal(*said)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parts_of_two_fits_do_not_predict(name, monkeypatch):
    """A fit that was interrupted left the new scale of columns with the old graph."""
    X, y = blobs(NUM_FITTED)
    estimator = clone(ESTIMATORS[name]).set_params(scale="standard").fit(X, y)

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("jsem_pyg.estimators.neighbor_estimator.FittedGraph", interrupt)
        with pytest.raises(KeyboardInterrupt):
            estimator.fit(1000 * X, y)
    with pytest.raises(NotFittedError):
        say(estimator, X)
    assert say(estimator.fit(X, y), X).shape == of_fitted(estimator).shape
