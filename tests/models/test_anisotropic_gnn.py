"""`AnisotropicGNN` on the contract of PyG's models."""

import pytest
import torch
from torch_geometric.nn.models.basic_gnn import BasicGNN

from jsem_pyg.models import AnisotropicGNN

EDGES = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])


@pytest.mark.parametrize("options", [{}, {"jk": "cat"}, {"norm": "batch_norm", "t": [0.5, 2.0]}])
def test_it_is_a_model_of_pyg(options):
    torch.manual_seed(0)
    model = AnisotropicGNN(4, 8, num_layers=3, out_channels=2, **options)
    assert isinstance(model, BasicGNN)
    assert model.supports_edge_weight
    assert model.supports_edge_attr
    x, weight, attr = torch.randn(6, 4), torch.full((6,), 0.5), torch.rand(3).repeat_interleave(2)
    out = model(x, EDGES[:, [0, 1, 2, 3, 4, 5]], edge_weight=weight, edge_attr=attr[:, None])
    assert out.shape == (6, 2)
    out.sum().backward()
    assert all(each.grad is not None for each in model.parameters() if each.requires_grad)
    assert str(model) == "AnisotropicGNN(4, 2, num_layers=3)"


def test_weights_and_features_reach_the_layers():
    torch.manual_seed(0)
    model = AnisotropicGNN(4, 8, num_layers=2, out_channels=2)
    with torch.no_grad():
        model.convs[0].conductance.slope.fill_(2.0)
    x, ones, attr = torch.randn(6, 4), torch.ones(6), torch.tensor([0.0, 0, 1, 1, 0, 0])[:, None]
    plain = model(x, EDGES, edge_weight=ones, edge_attr=attr)
    assert not torch.allclose(plain, model(x, EDGES, edge_weight=3 * ones, edge_attr=attr))
    assert not torch.allclose(plain, model(x, EDGES, edge_weight=ones, edge_attr=1 - attr))
