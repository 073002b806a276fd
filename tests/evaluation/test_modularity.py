import networkx as nx
import pytest
import torch
from laws import random_graph
from tiny_graphs import two_parts

from jsem_pyg.evaluation import modularity


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("weighted", [True, False])
def test_agrees_with_networkx(seed, weighted):
    edge_index, weight = random_graph(30, 0.2, 3, seed=seed, dtype=torch.float64)
    labels = torch.randint(5, (30,), generator=torch.Generator().manual_seed(seed))
    graph = nx.Graph()
    graph.add_nodes_from(range(30))
    weight = weight if weighted else torch.ones_like(weight)
    for (i, j), value in zip(edge_index.T.tolist(), weight.tolist(), strict=True):
        graph.add_edge(i, j, weight=value)
    clusters = [set((labels == c).nonzero().flatten().tolist()) for c in range(5)]
    expected = nx.community.modularity(graph, clusters, weight="weight")
    actual = modularity(edge_index, weight if weighted else None, labels)
    assert actual == pytest.approx(expected, abs=1e-6)


def test_one_cluster_and_clusters_of_one():
    edge_index, _ = two_parts()
    assert modularity(edge_index, None, torch.zeros(6, dtype=torch.int64)) == pytest.approx(0)
    assert modularity(edge_index, None, torch.arange(6)) == pytest.approx(-1 / 6)
    assert modularity(edge_index, None, torch.arange(6) // 3 * 7) == pytest.approx(1 / 2)


def test_unknown_labels_are_refused():
    edges = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="'labels' to be >= 0 .got -1"):
        modularity(edges, None, torch.tensor([0, -1]))
    with pytest.raises(ValueError, match="'edge_index'"):
        modularity(edges + 1, None, torch.tensor([0, 1]))


def test_one_direction_of_every_edge_is_the_same_graph():
    edge_index, weight = random_graph(20, 0.3, 3, dtype=torch.float64)
    once = edge_index[0] < edge_index[1]
    labels = torch.randint(3, (20,), generator=torch.Generator().manual_seed(0))
    expected = modularity(edge_index, weight, labels)
    for kept in (once, ~once):
        one_way = modularity(edge_index[:, kept], weight[kept], labels)
        assert one_way == pytest.approx(expected, abs=1e-12)
