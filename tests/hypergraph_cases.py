"""Awkward hypergraphs, and the dense formula to compare with."""

import itertools

import torch

from jsem_pyg.diffusion.hypergraph import hypergraph_heat
from jsem_pyg.diffusion.options import HeatOptions
from jsem_pyg.diffusion.times import check_signal, read_times, squeeze_scales
from jsem_pyg.graph import HypergraphStructure

WAYS = (None, True, False)  # by a dense kernel


def hypergraph_diffusion(
    x,
    hyperedge_index,
    hyperedge_weight=None,
    t=1.0,
    *,
    num_hyperedges=None,
    by_kernel=None,
    **options,
):
    """What a layer does, for times of any kind and either way."""
    check_signal(x)
    hypergraph = hyperedge_index
    if not isinstance(hypergraph, HypergraphStructure):
        count = num_hyperedges if hyperedge_weight is None else len(hyperedge_weight)
        hypergraph = HypergraphStructure(hypergraph, x.size(-2), count)
    options, times = HeatOptions(**options, domain="hypergraph"), read_times(t, x.size(-1))
    out = hypergraph_heat(x, hypergraph, hyperedge_weight, times, options, by_kernel)
    return squeeze_scales(out, t)


def random_hypergraph(num_nodes, num_hyperedges, probability=0.3, num_isolated=0, seed=0):
    """[2, M] memberships; the last nodes are isolated."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(num_nodes, num_hyperedges, generator=generator) < probability
    chosen[num_nodes - num_isolated :] = False
    return chosen.nonzero().t().contiguous()


def every(num_nodes, size):
    """Every set of `size` nodes as a hyperedge."""
    sets = torch.tensor(list(itertools.combinations(range(num_nodes), size)))
    return torch.stack([sets.flatten(), torch.arange(len(sets)).repeat_interleave(size)])


# name: (hyperedge_index, num_nodes, num_hyperedges)
CASES = {
    "random": (random_hypergraph(9, 5), 9, 5),
    "isolated nodes": (random_hypergraph(9, 5, num_isolated=3), 9, 5),
    "empty hyperedges": (random_hypergraph(9, 4) * torch.tensor([[1], [2]]), 9, 10),
    "more hyperedges than nodes": (random_hypergraph(4, 12), 4, 12),
    "repeated memberships": (
        torch.cat([random_hypergraph(6, 4), random_hypergraph(6, 4)[:, ::2]], dim=1),
        6,
        4,
    ),
    "one node": (torch.tensor([[0], [0]]), 1, 1),
    "single members": (torch.tensor([[0, 1, 1, 2], [0, 1, 2, 2]]), 4, 3),
    "no membership": (torch.empty(2, 0, dtype=torch.int64), 3, 2),
    "no hyperedge": (torch.empty(2, 0, dtype=torch.int64), 3, 0),
    "one large hyperedge": (torch.stack([torch.arange(20), torch.zeros(20).long()]), 20, 1),
    "every pair": (every(8, 2), 8, 28),
    "every triple": (every(8, 3), 8, 56),
    "no node": (torch.empty(2, 0, dtype=torch.int64), 0, 0),
}
IDS = list(CASES)


def case(name, dtype=torch.float64, seed=0):
    """The structure, and weights in [0.1, 1.1)."""
    index, num_nodes, num_hyperedges = CASES[name]
    generator = torch.Generator().manual_seed(seed)
    weight = 0.1 + torch.rand(num_hyperedges, generator=generator, dtype=dtype)
    return HypergraphStructure(index, num_nodes, num_hyperedges), weight


def dense_hypergraph_matrix(index, weight, num_nodes, normalization="sym"):
    """S [N, N], written down as in the paper; 1 on the diagonal of nodes without weight."""
    h = torch.zeros(num_nodes, weight.numel(), dtype=weight.dtype)
    h = h.index_put(tuple(index), torch.ones(index.size(1), dtype=weight.dtype), accumulate=True)
    node_degree, size = h @ weight, h.sum(0)
    alone = node_degree == 0
    node_degree = torch.where(alone, torch.ones_like(node_degree), node_degree)
    walk = h @ torch.diag(weight / size.clamp(min=1)) @ h.t()
    if normalization == "rw":
        s = walk / node_degree[:, None]
    else:
        s = walk / (node_degree[:, None] * node_degree[None]).sqrt()
    return s + torch.diag(alone.to(s.dtype))


def exact(x, index, weight, t, normalization="sym"):
    """exp(-t (I - S)) x by the matrix exponential."""
    s = dense_hypergraph_matrix(index, weight, x.size(-2), normalization)
    return torch.matrix_exp(-t * (torch.eye(x.size(-2), dtype=x.dtype) - s)) @ x
