import numpy as np
import pandas as pd
import pytest
import torch
from estimators.estimator_cases import NUM_FITTED, NUM_NEW, blobs, few_labels
from sklearn.datasets import load_digits
from torch_geometric.data import Data

from jsem_pyg.estimators import DiffusionLabelSpreading
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.training import fit

X, Y = blobs(NUM_FITTED)
X_NEW, Y_NEW = blobs(NUM_NEW, seed=1)


def test_it_is_self_training_from_the_labels():
    """Of sharpnesses from 1/4 to 128 the mean is taken, by shares that held-out labels give."""
    model = DiffusionLabelSpreading(8, metric="cosine", random_state=4).fit(X, few_labels(Y))
    x, labels = torch.from_numpy(X), torch.from_numpy(few_labels(Y))
    edge_index, edge_weight = knn_graph(x, 8)
    data = Data(x=x, edge_index=edge_index, edge_weight=edge_weight)
    trained = fit(DiffusionClassifier(X.shape[1], 3), data, labels=labels, seed=4).model
    certain = torch.nn.functional.one_hot(labels.clamp(min=0), 3)

    def keep_known(p):
        return torch.where((labels >= 0)[:, None], certain.to(p), p)

    with torch.no_grad():
        q = keep_known(trained.classify(x))
        p = keep_known(trained.diffuse(q, edge_index, edge_weight))
    scores = (p.double() + 1e-6).log()
    each = torch.stack([(2.0**power * scores).softmax(-1) for power in range(-2, 8)])
    p = keep_known((model._sharpness[:, None, None] * each).sum(0))
    np.testing.assert_allclose(model.label_distributions_, p, atol=1e-4)
    np.testing.assert_array_equal(model.transduction_, p.argmax(-1))


@pytest.mark.parametrize(
    "names",
    [
        np.array([10, 20, 30]),
        np.array([0.0, 1.0, 2.0]),
        np.array(["sun", "moon", "star"], dtype=object),
    ],
)
def test_labels_may_be_of_any_kind(names):
    y = np.full(NUM_FITTED, -1, dtype=names.dtype)
    y[:6] = names[Y[:6]]
    model = DiffusionLabelSpreading(8, t=2.0).fit(X, y)
    np.testing.assert_array_equal(model.classes_, np.unique(names))
    assert (model.predict(X_NEW) == names[Y_NEW]).mean() > 0.8
    assert (model.transduction_ == names[Y]).mean() > 0.9


def test_without_a_label_there_is_nothing_to_learn():
    with pytest.raises(ValueError, match="'y' to hold a label other than -1"):
        DiffusionLabelSpreading().fit(X, np.full(NUM_FITTED, -1))


def test_sizes_of_digits_that_are_known_help():
    """Of odd digits ten times as many as of even ones, with one label each."""
    X, y = load_digits(return_X_y=True)
    draw = np.random.default_rng(0)
    of = [draw.permutation(np.flatnonzero(y == c))[: 170 if c % 2 else 17] for c in range(10)]
    X, y = X[np.concatenate(of)], y[np.concatenate(of)]
    known = np.full(len(y), -1)
    known[[np.flatnonzero(y == c)[0] for c in range(10)]] = np.arange(10)
    sizes = np.bincount(y)
    model = DiffusionLabelSpreading(class_sizes=sizes, random_state=0).fit(X, known)
    assert model.by_graph_
    assert (model.transduction_ == y).mean() > 0.85
    mean = model.label_distributions_.mean(0)
    np.testing.assert_allclose(mean, sizes / len(y), atol=0.02)


def test_five_labels_of_each_digit_tell_unseen_ones():
    X, y = load_digits(return_X_y=True)
    known = np.full(700, -1)
    for digit in range(10):
        known[np.flatnonzero(y[:700] == digit)[:5]] = digit
    model = DiffusionLabelSpreading(random_state=0).fit(X[:700], known)
    assert (model.transduction_ == y[:700]).mean() > 0.85
    assert model.score(X[700:900], y[700:900]) > 0.75  # by other hands


@pytest.mark.parametrize("missing", [None, pd.NA, np.nan])
def test_missing_labels_are_refused_by_row(missing):
    y = np.array(["a", "b"] * (NUM_FITTED // 2), dtype=object)
    y[[3, 5]] = missing
    with pytest.raises(ValueError, match="'y' to hold -1 where a label is unknown"):
        DiffusionLabelSpreading().fit(X, y)


def test_a_list_keeps_what_numpy_would_make_text_of():
    y = (["a", "b", -1] * NUM_FITTED)[:NUM_FITTED]
    assert DiffusionLabelSpreading(8).fit(X, y).classes_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="'y' to be all text, or all numbers"):
        DiffusionLabelSpreading(8).fit(X, [4 if each == "a" else each for each in y])


@pytest.mark.parametrize("columns", [2, 10])
@pytest.mark.parametrize(
    ("sizes", "given"),
    [((900, 60, 40), (3, 3, 3)), ((400, 40), (3, 3)), ((900, 60, 40), (54, 4, 2))],
)
def test_classes_of_unequal_size_are_recalled_alike(sizes, given, columns):
    rng = np.random.default_rng(1)
    center = 8 * np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.8]]) @ np.eye(2, columns)
    y = np.repeat(np.arange(len(sizes)), sizes)
    x = center[y] + rng.normal(size=(len(y), columns))
    known = np.full(len(y), -1)
    for label, count in enumerate(given):
        known[np.flatnonzero(y == label)[:count]] = label
    model = DiffusionLabelSpreading(n_neighbors=10, random_state=0).fit(x, known)
    for label in range(len(sizes)):
        assert (model.transduction_ == label)[y == label].mean() > 0.95
        assert (model.predict(x + 1e-3) == label)[y == label].mean() > 0.95


@pytest.mark.parametrize("word", ["-1", "Unknown", "", " nan "])
def test_texts_for_no_label_are_none_and_the_log_says_so(word, caplog):
    names = np.array(["a", "b", "c"])[Y]
    known = np.arange(NUM_FITTED) < 9
    model = DiffusionLabelSpreading(8, t=2.0, random_state=0)
    wanted = model.fit(X, np.where(known, names.astype(object), -1)).transduction_
    caplog.clear()
    found = model.fit(X, np.where(known, names, word))
    assert found.classes_.tolist() == ["a", "b", "c"]
    assert (found.transduction_ == wanted).all()
    assert "of y count as unknown" in caplog.text
    with pytest.raises(ValueError, match="'y' to hold a label other than -1"):
        model.fit(X, np.full(NUM_FITTED, word))
