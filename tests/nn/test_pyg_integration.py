"""The layers under PyG's own tools: explainers and heterogeneous models."""

import pytest
import torch
from layer_cases import CHANNELS, bend, make_data
from torch_geometric.data import HeteroData
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import to_hetero

from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion


class Model(torch.nn.Module):
    def __init__(self, normalization="sym"):
        super().__init__()
        self.diffusion = bend(AnisotropicDiffusion(t=1.0, normalization=normalization))
        self.conv = bend(AnisotropicChebConv(CHANNELS, 3, normalization=normalization))

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
        x = self.diffusion(x, edge_index, edge_weight, edge_attr)
        return self.conv(x.relu(), edge_index, edge_weight, edge_attr)


@pytest.mark.parametrize("normalization", ["sym", "rw", None])
def test_an_open_mask_changes_nothing_and_a_closed_edge_does(normalization):
    data, model = make_data(), Model(normalization)
    arguments = (data.x, data.edge_index, data.edge_weight, data.edge_attr)
    fused = model(*arguments)
    mask = torch.ones(data.num_edges)
    set_masks(model, mask, data.edge_index, apply_sigmoid=False)
    torch.testing.assert_close(model(*arguments), fused, rtol=1e-5, atol=1e-5)
    mask[:10] = 0
    assert not torch.allclose(model(*arguments), fused, atol=1e-3)
    clear_masks(model)
    torch.testing.assert_close(model(*arguments), fused)


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_a_mask_acts_on_messages_of_its_column_in_the_direction_of_flow(flow):
    edge_index = torch.tensor([[0, 1], [1, 0]])
    layer, x = AnisotropicDiffusion(edge_dim=0, t=1.0, flow=flow), torch.eye(2)
    set_masks(layer, torch.tensor([1.0, 0.0]), edge_index, apply_sigmoid=False)
    out = layer(x, edge_index).detach()
    receiver = 1 if flow == "source_to_target" else 0  # of the column (0, 1)
    assert float(out[receiver, 1 - receiver]) > 0.1
    assert float(out[1 - receiver, receiver]) == 0


@pytest.mark.parametrize("normalization", ["sym", "rw", None])
def test_a_mask_takes_from_a_repeated_edge_what_it_conducts(normalization):
    edge_index = torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]])
    attr = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    layer, x = bend(AnisotropicDiffusion(t=1.0, normalization=normalization)), torch.eye(2)

    def masked(mask, weight):
        set_masks(layer, torch.tensor(mask), edge_index, apply_sigmoid=False)
        return layer(x, edge_index, torch.tensor(weight), attr).detach()

    heavy, light = masked([1.0, 1, 0, 0], [3.0, 3, 1, 1]), masked([0.0, 0, 1, 1], [3.0, 3, 1, 1])
    first, second = layer.conductance(attr)[[0, 2]].tolist()
    part = 3 * first / (3 * first + second)
    torch.testing.assert_close(heavy, masked([part] * 4, [3.0, 3, 1, 1]))
    torch.testing.assert_close(light, masked([1 - part] * 4, [3.0, 3, 1, 1]))
    # Without weight an edge carries no message; where none has any, they are equal.
    alone = [1.0, 1, 0, 0]
    torch.testing.assert_close(masked([0.0, 0, 1, 1], alone), masked([0.0] * 4, alone))
    torch.testing.assert_close(masked([0.0, 0, 1, 1], [0.0] * 4), x)


class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = AnisotropicChebConv(-1, 8, edge_dim=0)
        self.second = AnisotropicChebConv(8, 3, edge_dim=0)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def test_bipartite_edges_are_refused_clearly():
    data, graph = HeteroData(), make_data()
    data["paper"].x, data["author"].x = graph.x, graph.x.clone()
    data["author", "writes", "paper"].edge_index = graph.edge_index
    data["paper", "rev_writes", "author"].edge_index = graph.edge_index
    model = to_hetero(Stack(), data.metadata())
    with pytest.raises(ValueError, match="'x' to belong to one set of nodes"):
        model(data.x_dict, data.edge_index_dict)
