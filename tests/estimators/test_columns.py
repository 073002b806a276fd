"""Tables of measurements: their metric and the scale of their columns."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA

from jsem_pyg.estimators import DiffusionClusterer, HeatDiffusion

WINE, IRIS = load_wine().data, load_iris().data
RNG = np.random.default_rng(0)
# Groups far apart along one column, which varies no more than the others within them.
LINE = np.arange(400)[:, None] // 100 * [100, 0, 0] + RNG.normal(size=(400, 3))
PAIR = RNG.normal(size=(200, 1)) + RNG.normal(size=(200, 2)) / 3


def unit_rows(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("x", "metric", "scaled"),
    [
        (WINE, "l2", True),
        (WINE - 1e4, "l2", True),
        (IRIS, "l2", False),  # four lengths in centimetres
        (LINE, "l2", False),
        (LINE + 1e4, "l2", False),
        (PAIR * [1, 20], "l2", False),
        (PAIR * [40, 1], "l2", True),  # thirty times as wide
        (np.stack([RNG.integers(3, size=200), 1e4 * PAIR[:, 0]], axis=1), "l2", True),
        (RNG.normal(size=(99, 30)) * np.linspace(9, 1, 30), "l2", False),
        (PCA().fit_transform(load_breast_cancer().data[:200]), "l2", False),
        (unit_rows(RNG.normal(size=(99, 8))), "cosine", False),  # small embeddings
        (RNG.normal(size=(99, 384)), "cosine", False),
        (load_digits().data[:200], "cosine", False),
    ],
)
def test_tables_and_embeddings_are_told_apart(x, metric, scaled):
    heat = HeatDiffusion(5, t=0.5).fit(x)
    assert heat.metric_ == metric
    assert (heat.scale_ is not None) == scaled
    assert HeatDiffusion(5, t=0.5, metric="cosine").fit(x).scale_ is None


@pytest.mark.parametrize("scale", ["robust", "standard"])
def test_heat_flows_in_the_units_of_the_columns(scale):
    unit = np.geomspace(1e-20, 1e20, 13)
    divisor = np.subtract(*np.quantile(WINE, [0.75, 0.25], axis=0)) / 1.349
    divisor = divisor if scale == "robust" else WINE.std(0)
    plain = HeatDiffusion(t=2.0, metric="l2", scale=None).fit(WINE / divisor)
    ours = HeatDiffusion(t=2.0, metric="l2", scale=scale).fit(WINE * unit)
    np.testing.assert_allclose(ours.scale_, divisor * unit)
    np.testing.assert_allclose(ours.embedding_, plain.embedding_ * divisor * unit, rtol=1e-9)
    new = WINE[:5] * 1.01
    expected = plain.transform(new / divisor) * divisor * unit
    np.testing.assert_allclose(ours.transform(new * unit), expected, rtol=1e-9)


def test_a_scale_is_kept_for_new_points_and_in_files(tmp_path):
    clusterer = DiffusionClusterer(3, t=2.0, scale="standard", random_state=0).fit(WINE)
    clusterer.save(tmp_path / "wine")
    again = DiffusionClusterer.load(tmp_path / "wine")
    np.testing.assert_array_equal(again.scale_, WINE.std(0))
    new = WINE * 1.01
    np.testing.assert_array_equal(again.predict_proba(new), clusterer.predict_proba(new))
    np.testing.assert_array_equal(again.predict(WINE), clusterer.labels_)
