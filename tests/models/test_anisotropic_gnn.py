"""`AnisotropicGNN` on the contract of PyG's models, and its layer in GraphGym."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn.models.basic_gnn import BasicGNN

from jsem_pyg.models import AnisotropicGNN
from jsem_pyg.nn import AnisotropicChebConv

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


@pytest.mark.filterwarnings("ignore")  # of GraphGym at its import
@pytest.mark.parametrize("name", ["anisotropic_cheb_conv", "anisotropic_cheb_edge_conv"])
def test_graphgym_builds_and_trains_it(name):
    pytest.importorskip("yacs", reason="GraphGym needs yacs")
    from torch_geometric.graphgym.config import cfg, set_cfg
    from torch_geometric.graphgym.models.gnn import GNN

    import jsem_pyg.models.graphgym  # noqa: F401

    set_cfg(cfg)
    cfg.gnn.layer_type, cfg.gnn.dim_inner, cfg.gnn.layers_mp = name, 8, 2
    cfg.dataset.task, cfg.gnn.head, cfg.dataset.edge_dim = "node", "node", 1
    torch.manual_seed(0)
    model = GNN(4, 2)
    assert sum("AnisotropicCheb" in type(each).__name__ for each in model.modules()) == 4
    layers = [each for each in model.modules() if isinstance(each, AnisotropicChebConv)]
    assert all(each.bias is None for each in layers)  # a batch norm follows
    assert {each.edge_dim for each in layers} == {int(name == "anisotropic_cheb_edge_conv")}
    data = Data(x=torch.randn(5, 4), edge_index=EDGES, y=torch.tensor([0, 0, 0, 1, 1]))
    data.edge_weight, data.edge_attr = torch.ones(6), torch.rand(3).repeat_interleave(2)[:, None]
    data.split, data.train_mask = "train", torch.ones(5, dtype=torch.bool)
    losses = []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(30):
        optimizer.zero_grad()
        out, y = model(data.clone())
        losses.append(torch.nn.functional.cross_entropy(out, y))
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.5 * losses[0]
