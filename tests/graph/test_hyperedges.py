import networkx as nx
import pytest
import tiny_graphs
import torch

from jsem_pyg.graph import (
    clique_hyperedges,
    knn_hyperedges,
    knn_search,
)
from jsem_pyg.testing import random_graph


def members(hyperedge_index):
    """The set of each hyperedge."""
    sets = [set() for _ in hyperedge_index[1].unique()]
    for node, hyperedge in hyperedge_index.t().tolist():
        sets[hyperedge].add(node)
    return sets


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_every_point_with_its_neighbours(metric):
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    neighbor, _ = knn_search(x, 4, metric)
    expected = [{i, *near} for i, near in enumerate(neighbor.tolist())]
    assert members(knn_hyperedges(x, 4, metric)) == expected


@pytest.mark.parametrize("size", [2, 3, 4, 5])
@pytest.mark.parametrize("probability", [0.0, 0.3, 0.8])
def test_cliques_are_those_of_networkx(size, probability):
    edge_index, _ = random_graph(12, probability, num_isolated=2)
    graph = nx.Graph(edge_index.t().tolist())
    expected = [set(c) for c in nx.enumerate_all_cliques(graph) if len(c) == size]
    actual = members(clique_hyperedges(edge_index, 12, size))
    assert sorted(map(sorted, actual)) == sorted(map(sorted, expected))


@pytest.mark.parametrize(
    "graph", ["triangle_with_tail", "two_parts", "ring", "empty", "single_node"]
)
def test_triangles_of_small_graphs(graph):
    edge_index, num_nodes = getattr(tiny_graphs, graph)()
    triangles = {"triangle_with_tail": [{0, 1, 2}], "two_parts": [{0, 1, 2}, {3, 4, 5}]}
    assert members(clique_hyperedges(edge_index, num_nodes)) == triangles.get(graph, [])


def test_cliques_ignore_loops_and_repetition():
    edge_index = torch.tensor([[0, 0, 1, 0, 2, 2], [1, 0, 2, 1, 0, 2]])
    assert members(clique_hyperedges(edge_index, 3)) == [{0, 1, 2}]


def test_bad_arguments_are_refused():
    edge_index = torch.tensor([[0], [5]])
    with pytest.raises(ValueError, match="'size' to be at least 2"):
        clique_hyperedges(edge_index, 6, 1)
    with pytest.raises(ValueError, match="'edge_index' to hold node indices"):
        clique_hyperedges(edge_index, 3)
