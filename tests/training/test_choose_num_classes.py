from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from jsem_pyg.neighbors import knn_graph
from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.training import choose_num_classes, fit
from jsem_pyg.training.choose_num_classes import Level, choose_levels, join_levels, rank_levels
from jsem_pyg.training.cluster_scores import stability
from jsem_pyg.training.distinctness import _bend, with_lengths
from jsem_pyg.training.training_graph import prepare_graph
from jsem_pyg.transforms import FaissKNNGraph


def blobs(num_classes=4, each=30, channels=8, spread=0.15):
    draw = torch.Generator().manual_seed(0)
    x = torch.eye(channels)[torch.arange(num_classes).repeat_interleave(each)]
    return FaissKNNGraph(8)(Data(x=x + spread * torch.randn(len(x), channels, generator=draw)))


@pytest.mark.parametrize("num_classes", [3, 8])
def test_groups_that_lie_apart_are_counted(num_classes):
    chosen, finest = choose_levels(prepare_graph(blobs(num_classes)), largest=12)
    assert chosen.num_classes == num_classes
    assert len(finest.unique()) == 12
    assert list(chosen.curve) == list(range(1, 13))
    assert max(chosen.curve, key=chosen.curve.get) == num_classes


@pytest.mark.parametrize("scale", [1e-20, 1e10])
def test_the_scale_of_features_does_not_matter(scale):
    data = blobs(3)
    expected = fit(DiffusionClassifier(8, 3), data).model(data.x, data.edge_index)
    data.x = data.x * scale
    assert choose_num_classes(data, largest=6).num_classes == 3
    found = fit(DiffusionClassifier(8, 3), data).model(data.x, data.edge_index)
    assert torch.equal(found.argmax(-1), expected.argmax(-1))


def test_levels_are_the_numbers_that_win_at_most_times():
    scores = {
        2: np.array([0.0, 0.0, 0.0, 0.3]),
        7: np.array([0.0, 0.5, 0.5, 0.2]),
        8: np.array([0.6, 0.4, 0.4, 0.2]),
        20: np.array([0.5, 0.1, 0.1, 0.1]),
    }
    # 8 is but another count of the clusters that 7 is the better number of.
    ranked = rank_levels(scores)
    assert ranked == [Level(7, 0.75), Level(2, 0.25)]
    others = [Level(8, 0.4), Level(3, 0.3), Level(20, 0.2), Level(4, 0.1)]
    assert join_levels(7, others) == [Level(7, 0.4), Level(3, 0.3), Level(20, 0.2)]
    assert join_levels(40, ranked) == [Level(40, 0.0), *ranked]
    assert rank_levels({1: np.zeros(4)}) == [Level(1, 1.0)]
    ties = {2: np.array([0.3, 0.1]), 5: np.array([0.1, 0.4])}
    assert rank_levels(ties) == [Level(5, 0.5), Level(2, 0.5)]


def test_clusters_that_features_do_not_tell_score_nothing():
    draw = torch.Generator().manual_seed(0)
    data = blobs(3, 40, spread=0.05)
    assert choose_num_classes(data, largest=3).curve[3] > 0.6
    data.x = torch.randn(data.x.shape, generator=draw)  # the graph stays
    assert choose_num_classes(data, largest=3).curve[3] < 0.2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_stability_is_that_of_the_formula(dtype):
    data = blobs(3, 10)
    data.x = data.x.to(dtype)
    labels = torch.arange(30) % 4
    weight = torch.zeros(30, 30, dtype=torch.float64)
    weight[data.edge_index[0], data.edge_index[1]] = data.edge_weight.double()
    degree = weight.sum(1)
    walk = torch.matrix_exp(-5 * (torch.eye(30) - weight / degree[:, None]))  # of the walk
    p, one = degree / degree.sum(), torch.nn.functional.one_hot(labels).double()
    expected = torch.trace(one.T @ (p[:, None] * walk - p[:, None] * p) @ one)
    assert stability(prepare_graph(data), labels, 4, [1.0, 5.0])[1] == pytest.approx(
        float(expected), abs=1e-3
    )


@pytest.mark.parametrize(
    "shape",
    [
        "ball",
        "tails",
        "square",
        "ring",
        "column",
        "column of tails",
        "skewed",
        "skewed column",
        "column of squares",
        "column of squares, twice",
    ],
)
def test_one_cloud_has_one_cluster_and_no_distinctness(shape):
    draw = np.random.default_rng(1)
    x = draw.normal(size=(1000, 1) if "column" in shape else (300, 3))
    if shape == "tails":
        x = draw.standard_t(5, size=(300, 3))
    elif "tails" in shape:
        x = draw.standard_t(5, size=(1000, 1))
    elif "squares" in shape:
        x = np.random.default_rng([0, 7]).chisquare(3, size=(500, 1))
        x = np.c_[x, 0 * x, 2 * x] if "twice" in shape else x
    elif "skewed" in shape:
        x = np.exp(x if "column" in shape else draw.normal(size=(300, 10)))
    elif shape == "square":
        x = draw.uniform(size=(300, 2))
    elif shape == "ring":
        angle = draw.uniform(0, 2 * np.pi, 300)
        x = np.stack([np.cos(angle), np.sin(angle)], 1) + 0.1 * draw.normal(size=(300, 2))
    x = torch.from_numpy(x).float()
    edge_index, edge_weight = knn_graph(x, 15, "l2", progress=False)
    data = Data(x=x, edge_index=edge_index, edge_weight=edge_weight)
    chosen = choose_num_classes(data)
    assert chosen.num_classes == 1
    assert chosen.levels == [Level(1, 0.0)]
    assert chosen.distinctness < 1 / 3
    model = fit(DiffusionClassifier(x.size(1)), data, progress=False).model
    assert model.num_classes == 1
    assert choose_num_classes(blobs(3)).distinctness > 0.9


def test_columns_are_bent_to_the_quantiles_of_others():
    draw = torch.Generator().manual_seed(0)
    x, rows = (torch.randn(2000, 3, generator=draw) for _ in range(2))
    rows[:, 1] = rows[:, 1].exp()
    rows[:, 2] = rows[:, 2].clamp(min=0)  # few values: it stays
    bent, share = _bend(x, rows), torch.tensor([0.03, 0.2, 0.5, 0.8, 0.97])
    torch.testing.assert_close(bent[:, 2], x[:, 2])
    for i in (0, 1):
        found, expected = bent[:, i].quantile(share), rows[:, i].quantile(share)
        torch.testing.assert_close(found, expected, rtol=0.2, atol=0.05)
        assert torch.equal(bent[:, i].argsort(), x[:, i].argsort())


def test_lengths_weigh_alike_in_any_unit_and_place():
    graph = prepare_graph(blobs(3))
    expected = with_lengths(graph, metric="l2").edge_weight
    far = replace(graph, x=1e3 * graph.x.double() + 1e5)
    found = with_lengths(far, metric="l2").edge_weight
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=0)
    same = replace(graph, x=torch.zeros_like(graph.x))
    assert with_lengths(same, metric="l2").edge_weight.unique().numel() == 1


@pytest.mark.parametrize(
    ("x", "edges", "largest"),
    [
        (torch.ones(1, 3), [[], []], 1),
        (torch.ones(5, 3), [[0, 1], [1, 0]], 1),
        (torch.zeros(4, 2), [[0, 1, 2, 3], [1, 0, 3, 2]], 1),
        (torch.zeros(3, 2), [[0, 1, 1, 2], [1, 0, 2, 1]], 1),
        (torch.eye(4), [[], []], 4),
        (torch.eye(3)[[0, 0, 1, 1]], [[0, 1, 2, 3], [1, 0, 3, 2]], 2),
        (torch.ones(4, 0), [[0, 1, 2, 3], [1, 0, 3, 2]], 1),
    ],
)
def test_next_to_nothing_is_no_error(x, edges, largest):
    data = Data(x=x, edge_index=torch.tensor(edges, dtype=torch.int64))
    chosen = choose_num_classes(data)
    assert list(chosen.curve) == list(range(1, largest + 1))
    assert all(np.isfinite(score) for score in chosen.curve.values())


@pytest.mark.parametrize(("few", "columns"), [(6, 1), (8, 2), (7, 50)])
def test_rare_clusters_are_found(few, columns):
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(300, columns))).float()
    x[:few, 0] += 12
    edge_index, edge_weight = knn_graph(x, 15, "l2", progress=False)
    data = Data(x=x, edge_index=edge_index, edge_weight=edge_weight)
    assert choose_num_classes(data).num_classes == 2
    if columns > 1:  # of one column, a direction tells no more than the sign
        model = fit(DiffusionClassifier(columns, 2), data, progress=False).model
        found = model(data.x, edge_index, edge_weight).argmax(-1)
        assert sorted(found.bincount().tolist()) == [few, 300 - few]
