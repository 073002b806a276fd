"""A small graph with everything that the layers take, and ways to call and to bend them."""

import torch
from laws import random_graph
from torch_geometric.data import Data

from jsem_pyg.graph import GraphStructure

NUM_NODES, CHANNELS = 15, 4
NORMALIZATIONS = ["sym", "rw", None]


def make_data(seed=0, edge_dim=1, num_isolated=1):
    edge_index, weight = random_graph(NUM_NODES, 0.3, num_isolated, seed=seed, dtype=torch.float32)
    structure = GraphStructure(edge_index, NUM_NODES)
    generator = torch.Generator().manual_seed(seed)
    slots = torch.randn(structure.num_slots, edge_dim, generator=generator)
    edge_attr = ((slots + slots[structure.reverse]) / 2)[structure.slot]
    x = torch.randn(NUM_NODES, CHANNELS, generator=generator)
    return Data(x=x, edge_index=edge_index, edge_weight=weight, edge_attr=edge_attr)


def call(layer, data, x=None):
    x = data.x if x is None else x
    return layer(x, data.edge_index, data.edge_weight, data.edge_attr)


def count_preparations(monkeypatch):
    """A list that grows with every graph that is prepared."""
    made, build = [], GraphStructure._build
    monkeypatch.setattr(GraphStructure, "_build", lambda *args: made.append(1) or build(*args))
    return made


def bend(layer):
    """Leave the isotropic start."""
    with torch.no_grad():
        for parameter in layer.conductance.parameters():
            parameter.add_(torch.linspace(0.5, 1.5, parameter.numel()).view_as(parameter))
    return layer


class Similarity(torch.nn.Module):
    """A conductance that sees nodes, and is not symmetric by itself."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, CHANNELS))

    def forward(self, edge_attr, x_i, x_j):
        return torch.sigmoid((x_i * self.weight + 0.3 * x_j).sum(-1))
