import pytest
import tiny_graphs
import torch
from torch_geometric.data import Data

from jsem_pyg.graph import GraphStructure
from jsem_pyg.transport import AdjacencyCost


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_matrix_holds_the_weights(dtype):
    edge_index, num_nodes = tiny_graphs.triangle_with_tail()
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=dtype).repeat(2)
    cost = AdjacencyCost(edge_index, weight, num_nodes=5)
    expected = torch.zeros(5, 5, dtype=dtype)
    expected[edge_index[0], edge_index[1]] = weight
    assert num_nodes < cost.num_points == 5
    torch.testing.assert_close(cost.dense(), expected, rtol=0, atol=0)
    nodes = torch.tensor([3, 0, 3])
    torch.testing.assert_close(cost.columns(nodes), expected[:, nodes], rtol=0, atol=0)
    assert repr(cost) == "AdjacencyCost(num_points=5, num_edges=4)"


def test_repeated_edges_add_up_and_edges_of_weight_zero_are_none():
    edge_index = torch.tensor([[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]])
    cost = AdjacencyCost(edge_index, torch.tensor([1.0, 1.0, 2.0, 2.0, 0.0, 0.0]))
    assert cost.dense()[0, 1] == 3
    assert cost.scipy().nnz == 2


def test_what_is_refused():
    edge_index, _ = tiny_graphs.ring(4)
    with pytest.raises(ValueError, match="with a Data"):
        AdjacencyCost(Data(edge_index=edge_index), num_nodes=4)
    with pytest.raises(ValueError, match="to have 'edge_index'"):
        AdjacencyCost(Data(x=torch.zeros(3, 1)))
    with pytest.raises(ValueError, match="'num_nodes' to be 4"):
        AdjacencyCost(GraphStructure(edge_index, 4), num_nodes=5)
    with pytest.raises(TypeError, match="'edge_index' to be"):
        AdjacencyCost("graph")
    with pytest.raises(ValueError, match=r"'nodes' to hold node indices in \[0, 4\)"):
        AdjacencyCost(edge_index).columns(torch.tensor([4]))
