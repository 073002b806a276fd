"""Neighbours by a tree against neighbours by comparing all points."""

import pytest
import torch

from jsem_pyg.neighbors import knn_search
from jsem_pyg.neighbors.points import prepare_points
from jsem_pyg.neighbors.searcher import Searcher, SearchOptions
from jsem_pyg.neighbors.tree_search import nearest_outside, pays


def points(num_points, dim, dtype=torch.float32, seed=0):
    return torch.randn(num_points, dim, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("dim", [2, 3, 6])
def test_a_tree_finds_what_comparing_all_finds(dtype, metric, dim):
    x = points(2500, dim, dtype)
    x[100:140] = x[:40]  # duplicates
    prepared = prepare_points(x, metric)
    searcher = Searcher(prepared, 7, SearchOptions(progress=False))
    neighbor, distance = searcher.neighbors(7)
    assert searcher.tree is not None
    plain = Searcher(prepared, 7, SearchOptions(progress=False))
    plain.base = prepared.centred()
    expected = plain.neighbors(7)
    assert plain.tree is None
    torch.testing.assert_close(distance, expected[1])
    assert torch.equal(neighbor, expected[0])


def test_points_in_one_place_are_compared():
    assert pays(points(2500, 3))
    assert not pays(points(2500, 7))
    assert not pays(points(100, 3))
    assert not pays(torch.cat([points(2500, 3), torch.zeros(100, 3)]))
    neighbor, distance = knn_search(torch.zeros(3000, 3), 2, "l2", progress=False)
    assert distance.max() == 0
    assert neighbor[0].tolist() == [1, 2]


@pytest.mark.parametrize("num_components", [2, 5, 40, 200])
def test_the_way_out_of_a_component(num_components):
    x = points(2500, 3, torch.float64)
    label = x[:, 0].argsort().argsort() * num_components // 2500
    query = torch.arange(0, 2500, 7)
    found = nearest_outside(x, label, query)
    if found is None:  # more trees than pay
        assert num_components > 64 or 2500 // num_components > 64
        return
    apart = torch.cdist(x[query], x).masked_fill(label == label[query][:, None], torch.inf)
    assert torch.equal(found, apart.argmin(1))
