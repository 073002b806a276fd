"""Positional encodings by the smoothest modes."""

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE

from jsem_pyg.neighbors import knn_graph
from jsem_pyg.transforms import AddLowModes


def graph(size=60):
    x = torch.rand(size, 2, generator=torch.Generator().manual_seed(0))
    edge_index, weight = knn_graph(x, 6, "l2", connect=True)
    return Data(x=x, edge_index=edge_index, edge_weight=weight)


def test_equals_pyg_but_for_signs():
    data = graph()
    ours = AddLowModes(4)(data).laplacian_eigenvector_pe
    theirs = AddLaplacianEigenvectorPE(4, is_undirected=True)(data).laplacian_eigenvector_pe
    cosine = torch.nn.functional.cosine_similarity(ours, theirs, dim=0).abs()
    torch.testing.assert_close(cosine, torch.ones(4), rtol=0, atol=1e-3)


def test_appends_to_features_and_leaves_the_input_alone():
    data = graph()
    out = AddLowModes(3, attr_name=None)(data)
    assert out.x.shape == (60, 5)
    assert data.x.shape == (60, 2)
    assert torch.equal(AddLowModes(3, "pe")(data).pe, out.x[:, 2:])
    no_x = Data(edge_index=data.edge_index, num_nodes=60)
    assert AddLowModes(3, attr_name=None)(no_x).x.shape == (60, 3)


def test_small_graphs_get_zeros():
    pair = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    modes = AddLowModes(3, "pe")(pair).pe
    torch.testing.assert_close(modes[:, 0].abs(), torch.full((2,), 0.5**0.5))
    assert not modes[:, 1:].any()
    alone = Data(edge_index=torch.empty(2, 0, dtype=torch.int64), num_nodes=1)
    assert not AddLowModes(3, "pe")(alone).pe.any()


def test_refuses_batches_and_no_graph():
    with pytest.raises(ValueError, match="one by one"):
        AddLowModes(2)(Batch.from_data_list([graph(), graph()]))
    with pytest.raises(ValueError, match="'edge_index'"):
        AddLowModes(2)(Data(x=torch.ones(3, 1)))
    with pytest.raises(ValueError, match="'k'"):
        AddLowModes(0)
