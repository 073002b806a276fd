import networkx as nx
import pytest
import tiny_graphs
import torch
from laws import random_graph

from jsem_pyg.curvature import jaccard_overlap


@pytest.mark.parametrize("seed", range(5))
def test_jaccard_equals_networkx(seed):
    edge_index, _ = random_graph(25, 0.1 + 0.2 * seed, num_isolated=2, seed=seed)
    graph = nx.Graph(edge_index.t().tolist())
    pairs = edge_index.t().tolist()
    expected = torch.tensor([score for _, _, score in nx.jaccard_coefficient(graph, pairs)])
    torch.testing.assert_close(jaccard_overlap(edge_index, 25), expected)


@pytest.mark.parametrize(
    ("graph", "jaccard"),
    [
        (tiny_graphs.ring(3), [1 / 3] * 3),
        (tiny_graphs.ring(5), [0.0] * 5),
        (tiny_graphs.star(4), [0.0] * 4),
        (tiny_graphs.triangle_with_tail(), [1 / 3, 1 / 4, 1 / 4, 0.0]),
    ],
)
def test_by_hand(graph, jaccard):
    torch.testing.assert_close(jaccard_overlap(*graph), torch.tensor(jaccard * 2))


@pytest.mark.parametrize("graph", [tiny_graphs.empty(), tiny_graphs.single_node()])
def test_a_graph_without_edges(graph):
    edge_index, num_nodes = graph
    assert jaccard_overlap(edge_index, num_nodes).shape == (0,)
    assert jaccard_overlap(edge_index).shape == (0,)


def test_the_order_of_edges_and_isolated_nodes_do_not_matter():
    edge_index, weight = random_graph(30, 0.3)
    order = torch.randperm(weight.numel(), generator=torch.Generator().manual_seed(0))
    values = jaccard_overlap(edge_index, 30)
    assert torch.equal(jaccard_overlap(edge_index[:, order], 50), values[order])
    assert torch.equal(jaccard_overlap(edge_index.flip(0)), values)  # bitwise symmetric
