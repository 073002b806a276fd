"""Random graphs, and the laws of diffusion; an AssertionError shows the numbers that disagree."""

import torch
from torch_geometric.utils import coalesce, to_undirected


def random_graph(num_nodes, probability=0.2, num_isolated=0, seed=0, dtype=torch.float64):
    """Edges [2, E], sorted, and weights [E] in [0.1, 1.1); the last nodes have no edge."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(num_nodes, num_nodes, generator=generator) < probability
    last = num_nodes - num_isolated
    chosen[last:], chosen[:, last:] = False, False
    edge_index = chosen.triu(diagonal=1).nonzero().t().contiguous()
    weight = 0.1 + torch.rand(edge_index.size(1), generator=generator, dtype=dtype)
    edge_index, weight = to_undirected(edge_index, weight, num_nodes)
    edge_index, weight = coalesce(edge_index, weight, num_nodes)
    return edge_index, weight


def assert_permutation_equivariant(diffuse, x, edge_index, edge_weight, rtol=1e-6):
    """Renumbering the nodes renumbers the result of `diffuse(x, edge_index, edge_weight)`."""
    generator = torch.Generator().manual_seed(0)
    # Turned by one, since a random order of two is often the one they have.
    order = torch.randperm(x.size(-2), generator=generator).roll(1)
    shuffle = torch.randperm(edge_index.size(1), generator=generator).roll(1)
    moved = diffuse(
        x.index_select(-2, order), order.argsort()[edge_index][:, shuffle], edge_weight[shuffle]
    )
    expected = diffuse(x, edge_index, edge_weight).index_select(-2, order)
    assert_relative("a graph and its renumbering", moved, expected, rtol)


def assert_heat_laws(diffuse, x, rtol=1e-5):
    """For `diffuse(x, t)`, t = 0 is the identity, and times add up."""
    assert_relative("t = 0 and the identity", diffuse(x, 0.0), x, rtol)
    twice = diffuse(diffuse(x, 0.7), 1.6)
    assert_relative("t = 0.7, then 1.6, and t = 2.3", twice, diffuse(x, 2.3), rtol)


def assert_relative(what, actual, expected, rtol):
    if actual.shape != expected.shape:
        raise AssertionError(f"{what}: shapes {list(actual.shape)} and {list(expected.shape)}.")
    actual, expected = actual.detach().double(), expected.detach().double()
    error = float((actual - expected).norm()) / max(float(expected.norm()), 1e-300)
    if not error <= rtol:
        raise AssertionError(f"{what}: a relative error of {error:.3g}, above {rtol:.3g}.")
