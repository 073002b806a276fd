"""Sketches of nodes as a transform."""

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import Compose

from jsem_pyg.diffusion import sketch_nodes
from jsem_pyg.transforms import AddSketch

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_writes_the_sketch_and_leaves_the_input_alone():
    weight = torch.tensor([1.0, 1.0, 2.0, 2.0])
    data = Data(x=torch.ones(5, 1), edge_index=EDGES, edge_weight=weight)
    out = Compose([AddSketch(4, [1.0, 2.0], seed=3)])(data)
    expected = sketch_nodes(EDGES, 4, weight, [1.0, 2.0], num_nodes=5, seed=3)
    assert torch.equal(out.sketch, expected)
    assert "sketch" not in data
    assert torch.equal(AddSketch(4, attr_name=None)(data).x[:, 1:], AddSketch(4)(data).sketch)


def test_refuses_batches_and_no_graph():
    data = Data(edge_index=EDGES, num_nodes=3)
    with pytest.raises(ValueError, match="one by one"):
        AddSketch(2)(Batch.from_data_list([data, data]))
    with pytest.raises(ValueError, match="'edge_index'"):
        AddSketch(2)(Data(x=torch.ones(3, 1)))
    with pytest.raises(ValueError, match="'dim'"):
        AddSketch(0)
