"""Small graphs and models that the training tests share."""

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected


def two_clusters(num_nodes=24, num_channels=6, seed=0):
    """Two noisy clusters, each a ring with chords, and one bridge between them."""
    generator = torch.Generator().manual_seed(seed)
    half = num_nodes // 2
    node = torch.arange(half)
    inside = torch.cat([torch.stack([node, (node + step) % half]) for step in (1, 2)], dim=1)
    bridge = torch.tensor([[0], [half]])
    edge_index = to_undirected(torch.cat([inside, inside + half, bridge], dim=1))
    y = (torch.arange(num_nodes) >= half).long()
    x = torch.randn(num_nodes, num_channels, generator=generator)
    x[:, 0] += 2 * y - 1
    edge_weight = 0.5 + torch.rand(num_nodes, generator=generator)[edge_index].sum(0)
    edge_attr = torch.where(y[edge_index[0]] == y[edge_index[1]], 0.0, -3.0).unsqueeze(1)
    return Data(x=x, edge_index=edge_index, edge_weight=edge_weight, edge_attr=edge_attr, y=y)


class SmoothingStub(nn.Module):
    """Dropout, a linear map, and a weighted mean over the neighbours."""

    def __init__(self, num_channels=6, dropout=0.0):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        weight = torch.randn(num_channels, num_channels, generator=generator)
        self.weight = nn.Parameter(torch.eye(num_channels) + 0.1 * weight)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
        if edge_weight is None:
            edge_weight = x.new_ones(edge_index.size(1))
        h = self.dropout(x) @ self.weight
        source, target = edge_index
        mean = torch.zeros_like(h).index_add(0, target, edge_weight.unsqueeze(1) * h[source])
        return h + mean / (1e-6 + edge_weight.mean() * 4)


class PlainStub(nn.Module):
    """A model whose call knows no edge weights or features."""

    def __init__(self, num_channels=6):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(num_channels))

    def forward(self, x, edge_index):
        return x * self.scale


class Interruption(Exception):
    """As if a run had been stopped."""


def interrupt_at(epoch):
    def callback(end):
        if end.row.epoch == epoch:
            raise Interruption

    return callback


def numbers(result):
    """The history without the times, which no two runs share."""
    return [row[:4] for row in result.history]


def assert_equal_weights(model, other):
    """Bit for bit."""
    for (name, a), b in zip(model.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
