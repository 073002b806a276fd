import pytest
import torch
from scipy.sparse.csgraph import minimum_spanning_tree

from jsem_pyg.neighbors.connect import component_labels, shortest_links
from jsem_pyg.neighbors.points import prepare_points

BUDGET = "jsem_pyg.neighbors.component_links._BUDGET"


def clusters(num_clusters=30, size=20, seed=0):
    generator = torch.Generator().manual_seed(seed)
    center = 10 * torch.randn(num_clusters, 4, generator=generator)
    x = center.repeat_interleave(size, 0) + torch.randn(num_clusters * size, 4, generator=generator)
    label = torch.arange(num_clusters).repeat_interleave(size)
    order = torch.randperm(label.numel(), generator=generator)
    return prepare_points(x[order], "l2"), label[order]


def all_distances(points):
    n = points.num_points
    i, j = torch.cartesian_prod(torch.arange(n), torch.arange(n)).T
    return points.distance(i, j).view(n, n)


def spanning_length(points, label):
    """The length of the minimum spanning tree, by all pairs."""
    count = int(label.max()) + 1
    key = label[:, None] * count + label
    between = torch.full((count * count,), torch.inf, dtype=points.coordinates.dtype)
    between = between.scatter_reduce(0, key.flatten(), all_distances(points).flatten(), "amin")
    between = between.view(count, count).fill_diagonal_(0)
    return float(minimum_spanning_tree(between.numpy()).sum())


def assert_joins(link, label):
    count = int(label.max()) + 1
    assert link.size(1) == count - 1
    assert int(component_labels(label[link], count).max()) == 0
    assert (link[0] < link[1]).all()


@pytest.mark.parametrize(("seed", "chunk"), [(0, 17), (1, 100), (2, 1024)])
def test_exact_links_are_a_minimum_spanning_tree(seed, chunk, monkeypatch):
    monkeypatch.setattr("jsem_pyg.neighbors.component_links._QUERIES", chunk)
    monkeypatch.setattr("jsem_pyg.neighbors.component_links._BASE", 2 * chunk - 1)
    points, label = clusters(seed=seed)
    link, length = shortest_links(points, label)
    assert_joins(link, label)
    assert float(length.sum()) == pytest.approx(spanning_length(points, label), rel=1e-5)


def test_links_in_few_dimensions_are_found_by_a_tree(monkeypatch):
    """Components from below to above the number of points that it looks at."""
    monkeypatch.setattr("jsem_pyg.neighbors.tree_search._FEWEST_POINTS", 1)
    generator = torch.Generator().manual_seed(0)
    label = torch.arange(5).repeat_interleave(torch.tensor([3, 40, 80, 200, 277]))
    center = torch.tensor([[0.0, 0.0], [9, 0], [90, 0], [0, 90], [90, 90]])
    points = prepare_points(center[label] + torch.randn(600, 2, generator=generator), "l2")
    link, length = shortest_links(points, label)
    assert_joins(link, label)
    assert float(length.sum()) == pytest.approx(spanning_length(points, label), rel=1e-5)
    monkeypatch.setattr(BUDGET, 0)
    assert_joins(shortest_links(points, label)[0], label)


@pytest.mark.parametrize("seed", range(3))
def test_within_a_budget_links_join_and_are_hardly_longer(seed, monkeypatch):
    points, label = clusters(seed=seed)
    budget = 3 * 29 * 64 * points.num_points  # three points of each component
    monkeypatch.setattr(BUDGET, budget)
    link, length = shortest_links(points, label)
    assert_joins(link, label)
    shortest = spanning_length(points, label)
    assert shortest * (1 - 1e-6) <= float(length.sum()) <= 1.2 * shortest


def test_duplicates_in_different_components_are_joined_at_distance_zero():
    points = prepare_points(torch.ones(200, 2), "l2")
    label = torch.arange(200) // 20
    link, length = shortest_links(points, label)
    assert_joins(link, label)
    assert (length == 0).all()


def test_one_component_needs_no_link():
    points, _ = clusters(2, 3)
    link, length = shortest_links(points, torch.zeros(6, dtype=torch.int64))
    assert link.shape == (2, 0)
    assert length.shape == (0,)
