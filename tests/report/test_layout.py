from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dense import exact_heat_diffusion
from report_cases import blobs

from jsem_pyg.report import layout
from jsem_pyg.report.layout import place_points, reduce_features
from jsem_pyg.training.training_graph import prepare_graph


def placed(data, found, times, kind="pca", seed=0):
    return place_points(prepare_graph(data), found, times, kind, seed, progress=False)


def test_heat_flows_along_edges_as_they_conduct(monkeypatch):
    data, found = blobs()
    seen = []
    monkeypatch.setattr(layout, "_project", lambda stages, *rest: seen.extend(stages))
    placed(data, found, [0.0, 1.0, 3.0])
    signal = reduce_features(data.x, 0)
    weight = data.edge_weight * found.conductances
    for t, z in zip([0.0, 1.0, 3.0], seen, strict=True):
        expected = exact_heat_diffusion(signal, data.edge_index, weight, t)
        torch.testing.assert_close(z, F.normalize(expected), atol=1e-5, rtol=0)


def test_pca_shows_all_times_on_the_axes_of_the_last():
    data, found = blobs()
    alone, both = placed(data, found, [4.0]), placed(data, found, [0.0, 4.0])
    assert np.allclose(alone[0], both[1], atol=1e-5)
    assert both[1].std() != pytest.approx(both[0].std(), rel=0.01)


@pytest.mark.parametrize(
    # umap compiles for some seconds
    "kind",
    ["tsne", pytest.param("umap", marks=pytest.mark.slow)],
)
def test_layouts_keep_points_where_they_were(kind):
    data, found = blobs(each=30)
    places, again = (placed(data, found, [0.0, 1.0, 4.0], kind) for _ in range(2))
    assert np.array_equal(places, again)
    y, width = data.y.numpy(), np.ptp(places[2], axis=0).max()
    for one, other in pairwise(places):
        assert np.median(np.linalg.norm(one - other, axis=1)) < 0.2 * width
    centres = np.stack([places[2][y == label].mean(0) for label in range(3)])
    nearest = np.linalg.norm(places[2][:, None] - centres, axis=-1).argmin(1)
    assert (nearest == y).mean() > 0.95
    if kind == "umap":  # t-SNE of few points begins with their axes, and draws nothing
        other = placed(data, found, [0.0, 1.0, 4.0], "umap", seed=1)
        assert not np.array_equal(places, other)
