"""Points in several processes, and the graphs that they are to give."""

import pytest
import torch

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.partition import distributed_knn_graph
from jsem_pyg.partition.processes import knn


def normal(size, channels, dtype=torch.float32):
    generator = torch.Generator().manual_seed(size)
    return torch.randn(size, channels, generator=generator).to(dtype) + 1


POINTS = {
    "normal": normal(203, 5),
    "float64": normal(60, 3, torch.float64),
    "ties": torch.cartesian_prod(torch.arange(1.0, 6), torch.arange(1.0, 6)).repeat(2, 1),
    "few": normal(5, 2),
    "one each": normal(4, 2),
}
OPTIONS = [
    {"k": 4, "metric": "l2", "kernel": "gaussian", "symmetrize": "max"},
    {"k": 9, "metric": "l2", "kernel": "self_tuning", "symmetrize": "mean"},
    {"k": 3, "metric": "cosine", "kernel": "cosine", "symmetrize": "mutual"},
    {"k": 6, "metric": "cosine", "kernel": None, "symmetrize": "max"},
]


def shard(x, rank, size):
    """Shards of different sizes: the first process has one point."""
    begin = [0, *(1 + torch.arange(size) * (len(x) - 1) // (size - 1)).tolist()]
    return x[begin[rank] : begin[rank + 1]]


def whole_graph(x, options):
    """What one process finds, and heat on it."""
    edge_index, weight = knn_graph(x, **options, connect=False)
    return edge_index, weight, heat_diffusion(x, edge_index, weight)


def build_shards(size, group=None):
    """This process's edges by the numbers of all points, their places, weights, and heat."""
    found, rank = {}, torch.distributed.get_rank(group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knn, "_ASKED_NUMBERS", 200)  # several blocks
        for name, x in POINTS.items():
            for options in OPTIONS:
                part = distributed_knn_graph(shard(x, rank, size), **options, group=group)
                edges = torch.stack([part.record.row + part.nodes[0], part.record.col])
                y = heat_diffusion(part.data.x, part, part.data.edge_weight)
                found[name, str(options)] = edges, part.edge, part.data.edge_weight, y
    return found


def refuse_shards(rank):
    """The error of all processes if one has no points."""
    with pytest.raises(ValueError, match="points in every process") as error:
        distributed_knn_graph(torch.ones(int(rank != 2), 3))
    return str(error.value)
