"""Awkward graphs for edge signals, and dense algebra written down from the definitions."""

import itertools

import torch
from laws import random_graph

from jsem_pyg.diffusion.options import HeatOptions
from jsem_pyg.diffusion.simplicial import read_complex, simplicial_heat
from jsem_pyg.diffusion.times import check_signal, read_times, squeeze_scales
from jsem_pyg.graph.reader import GraphReader


def simplicial_diffusion(
    x, edge_index, triangles=None, edge_weight=None, triangle_weight=None, t=1.0, t_up=None,
    **options,
):  # fmt: skip
    """What a layer does, for times of any kind."""
    check_signal(x)
    options = HeatOptions(**options, normalization=None, domain="complex")
    times = read_times(t, x.size(-1)), read_times(t if t_up is None else t_up, x.size(-1), "t_up")
    weights = edge_weight, triangle_weight
    weighted = read_complex(GraphReader(keeps=False), edge_index, x, triangles, *weights)
    return squeeze_scales(simplicial_heat(x, weighted, *times, options), t)


def once(pairs):
    """[2, E] from a list of pairs."""
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).t()


def shuffled(num_nodes, probability, num_isolated=0, seed=0):
    """A random graph, each edge once, in random order and orientation."""
    edge_index, _ = random_graph(num_nodes, probability, num_isolated, seed)
    edge_index = edge_index[:, edge_index[0] < edge_index[1]]
    generator = torch.Generator().manual_seed(seed)
    edge_index = edge_index[:, torch.randperm(edge_index.size(1), generator=generator)]
    flip = torch.rand(edge_index.size(1), generator=generator) < 0.5
    return torch.where(flip, edge_index.flip(0), edge_index)


RING = once([(i, (i + 1) % 6) for i in range(6)])
# name: (edge_index, num_nodes)
CASES = {
    "random": (shuffled(9, 0.5), 9),
    "sparse": (shuffled(12, 0.2, seed=3), 12),
    "isolated nodes": (shuffled(10, 0.6, num_isolated=4, seed=1), 10),
    "ring, no triangle": (RING, 6),
    "one triangle": (once([(0, 1), (2, 1), (2, 0), (3, 2)]), 4),
    "parts": (torch.cat([shuffled(6, 0.7, seed=2), RING + 6, once([(13, 12)])], dim=1), 14),
    "complete": (once(list(itertools.combinations(range(6), 2))), 6),
    "one edge": (once([(1, 0)]), 2),
    "one node": (once([]), 1),
    "no edges": (once([]), 5),
    "no nodes": (once([]), 0),
}
IDS = list(CASES)


def cliques(edge_index):
    """All triangles i < j < k, by looking at every three nodes."""
    joined = {frozenset(each) for each in edge_index.t().tolist()}
    nodes = sorted({node for pair in joined for node in pair})
    found = [
        three
        for three in itertools.combinations(nodes, 3)
        if all(frozenset(two) in joined for two in itertools.combinations(three, 2))
    ]
    return torch.tensor(found, dtype=torch.int64).reshape(-1, 3).t()


def dense_boundaries(edge_index, num_nodes, triangles=None):
    """B1 [N, E] and B2 [E, F], oriented as the columns of `edge_index` are."""
    triangles = cliques(edge_index) if triangles is None else triangles
    pairs = [tuple(each) for each in edge_index.t().tolist()]
    b1 = torch.zeros(num_nodes, len(pairs), dtype=torch.float64)
    b2 = torch.zeros(len(pairs), triangles.size(1), dtype=torch.float64)
    for e, (tail, head) in enumerate(pairs):
        b1[tail, e], b1[head, e] = -1, 1
    for f, three in enumerate(triangles.t().tolist()):
        i, j, k = sorted(three)
        for a, b in ((i, j), (j, k), (k, i)):  # once around
            if (a, b) in pairs:
                b2[pairs.index((a, b)), f] = 1
            else:
                b2[pairs.index((b, a)), f] = -1
    return b1, b2


def dense_parts(edge_index, num_nodes, triangles=None, edge_weight=None, triangle_weight=None):
    """L_down and L_up [E, E], in the orientation of the columns; differentiable in the weights."""
    b1, b2 = dense_boundaries(edge_index, num_nodes, triangles)
    w1, w2 = edge_weight, triangle_weight
    if w1 is None:
        w1 = torch.ones(b1.size(1), dtype=torch.float64)
    if w2 is None:
        w2 = torch.ones(b2.size(1), dtype=torch.float64)
    root = w1.sqrt()
    down = root[:, None] * (b1.t() @ b1) * root
    up = (b2 * w2) @ b2.t() / root[:, None] / root
    return down, up


def exact(x, parts, t, t_up=None):
    """exp(-t L_down - t_up L_up) x by the matrix exponential."""
    down, up = parts
    return torch.matrix_exp(-t * down - (t if t_up is None else t_up) * up) @ x


def signal(edge_index, channels=3, dtype=torch.float64, seed=0, batch=()):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*batch, edge_index.size(1), channels, generator=generator, dtype=dtype)


def weights(edge_index, seed=0, dtype=torch.float64):
    """Weights of the edges and of all triangles, in [0.2, 1.2)."""
    generator = torch.Generator().manual_seed(seed)
    sizes = edge_index.size(1), cliques(edge_index).size(1)
    return [0.2 + torch.rand(size, generator=generator, dtype=dtype) for size in sizes]
