import pytest
import tiny_graphs
import torch

from jsem_pyg.curvature import forman_curvature, node_curvature
from jsem_pyg.testing import random_graph

RING = tiny_graphs.ring(3)[0]


def test_by_hand():
    edge_index, _ = tiny_graphs.triangle_with_tail()
    mean = node_curvature(edge_index, forman_curvature(edge_index), num_nodes=5)
    torch.testing.assert_close(mean, torch.tensor([2.5, 2.5, 4 / 3, 0.0, 0.0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_mean_over_each_node(dtype):
    edge_index, weight = random_graph(30, 0.2, num_isolated=3, dtype=dtype)
    curvature = forman_curvature(edge_index, weight, 30)
    order = torch.randperm(weight.numel(), generator=torch.Generator().manual_seed(0))
    result = node_curvature(edge_index[:, order], curvature[order], 30)
    assert result.dtype == dtype
    for node in range(27):
        torch.testing.assert_close(result[node], curvature[edge_index[0] == node].mean())
    assert result[27:].tolist() == [0.0] * 3


@pytest.mark.parametrize(
    ("graph", "size"), [(tiny_graphs.empty(), 0), (tiny_graphs.single_node(), 1)]
)
def test_a_graph_without_edges(graph, size):
    assert node_curvature(graph[0], torch.empty(0), graph[1]).tolist() == [0.0] * size


@pytest.mark.parametrize(
    ("curvature", "error", "message"),
    [
        (torch.arange(6.0), ValueError, "'curvature' to be the same in both directions"),
    ],
)
def test_refuses(curvature, error, message):
    with pytest.raises(error, match=message):
        node_curvature(RING, curvature)
    with pytest.raises(ValueError, match=r"node indices in \[0, 2\)"):
        node_curvature(RING, torch.ones(6), num_nodes=2)
    with pytest.raises(ValueError, match="without their reverse"):
        node_curvature(RING[:, :4], torch.ones(4))


def test_a_node_with_one_edge_has_its_curvature():
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    assert node_curvature(path, torch.tensor([1.0, 1.0, 3.0, 3.0])).tolist() == [1.0, 2.0, 3.0]
