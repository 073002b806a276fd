"""Random graphs of which many edges hardly conduct, for the tests of pruning."""

import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected


def faint_graph(seed, num_nodes=40, num_edges=200, dtype=torch.float64):
    """A graph with two isolated nodes, and what its edges conduct: alike in both directions."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(num_nodes - 2, (2, num_edges), generator=generator)
    edge_index = to_undirected(ends[:, ends[0] != ends[1]], num_nodes=num_nodes)
    pair = edge_index.min(0).values * num_nodes + edge_index.max(0).values
    weight, h = torch.rand(2, num_nodes**2, generator=generator, dtype=torch.float64)
    data = Data(edge_index=edge_index, edge_weight=weight[pair].to(dtype), num_nodes=num_nodes)
    return data, (h[pair] ** 4).to(dtype)


def pairs(edge_index):
    """The edges as a set of pairs, the smaller end first."""
    return {(min(i, j), max(i, j)) for i, j in edge_index.t().tolist()}
