"""Builds the neighbour graph of points that several processes hold, each a shard of them."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from ..._checks import check_tensor
from ...neighbors.affinity import (
    KERNELS,
    affinity,
    both_directions,
    common_width,
    local_width,
    node_width,
    undirected_edges,
)
from ...neighbors.build import GraphOptions
from ...neighbors.points import Points, prepare_points
from ...neighbors.searcher import Searcher, SearchOptions
from .graph import DistributedGraph
from .ranks import Ranks
from .routes import owner_of
from .rows import RowRecord

# How many numbers of the points of all processes are asked for at once: 16 MB.
_ASKED_NUMBERS = 1 << 22


def distributed_knn_graph(
    x: Tensor,
    k: int = 15,
    metric: str = "cosine",
    index: str = "auto",
    kernel: str | None = "gaussian",
    symmetrize: str = "max",
    *,
    recall_target: float = 0.95,
    seed: int = 0,
    group: Any = None,
) -> DistributedGraph:
    """Build the k-nearest-neighbour graph of points that lie in shards, one in each process.

    Each process searches its own points for the neighbours of all points, block by block, and the
    nearest of all shards are kept. The edges are those that
    :func:`~jsem_pyg.neighbors.knn_graph` builds with ``connect=False`` of all points, those of the
    first process first: exactly so if the searches are exact ("flat", "tree"). Of neighbours at
    equal distances the ones with lower numbers count. No process holds all points or all edges,
    only a number for each point. Components are not joined.

    All processes call this together, by a process group that sends tensors of the CPU ("gloo").

    Args:
        x: [n, F] floating-point tensor, finite: the points of this process, at least one.
        k: Neighbours of each point, or all others if there are fewer.
        metric: "cosine" or "l2", as in :func:`~jsem_pyg.neighbors.knn_graph`.
        index: "auto", "tree", "flat", "ivf" or "hnsw": the search in every shard.
        kernel: "gaussian", "self_tuning", "cosine" or None.
        symmetrize: "max", "mean" or "mutual".
        recall_target: In (0, 1], for approximate searches, in each shard.
        seed: Of what is random in approximate searches.
        group: Processes of `torch.distributed`; None: all.

    Returns:
        This process's rows of the graph, with its points as `data.x` and the weights of its edges
        as `data.edge_weight`, as :func:`distribute` returns them.

    Raises:
        RuntimeError: If another process ended or hangs.

    Example:
        >>> x = torch.tensor([[0.0], [1.0], [3.0], [3.5]])  # of the only process
        >>> distributed_knn_graph(x, k=1, metric="l2", kernel=None)
        DistributedGraph(rank=0 of 1, num_nodes=4 of 4, num_edges=4, halo=0)
    """
    check_tensor("x", x)
    options = GraphOptions(k, metric, kernel, symmetrize, connect=False)
    search = SearchOptions(index, recall_target, seed, progress=False)
    ranks, points = Ranks(group), prepare_points(x, metric)
    counts = _gather(torch.tensor([points.num_points]), ranks, [1] * ranks.size).tolist()
    if min(counts) == 0:
        raise ValueError(f"Expected 'x' to have points in every process (got {counts} points).")
    begin = torch.tensor([0, *counts]).cumsum(0)
    low, high, num_points = int(begin[ranks.rank]), int(begin[ranks.rank + 1]), int(begin[-1])
    center = ranks.total(points.center.double() * points.num_points) / num_points
    points = points._replace(center=center.to(points.center.dtype))
    target, distance = _neighbors(points, min(k, max(num_points - 1, 1)), search, ranks, begin)

    width = _widths(distance, kernel, ranks, counts)
    source = torch.arange(low, high).repeat_interleave(distance.size(1))
    target = target.flatten()
    weight = affinity(distance.flatten(), source, target, width, kernel)
    edges = _to_owners(source, target, weight, ranks, begin)
    pair, weight = undirected_edges(*edges, num_points, options.symmetrize)
    edge_index, weight = both_directions(pair, weight, num_points)
    own = (edge_index[0] >= low) & (edge_index[0] < high)
    (row, col), weight = edge_index[:, own], weight[own]

    num_edges = _gather(torch.tensor([row.numel()]), ranks, [1] * ranks.size)
    first = int(num_edges[: ranks.rank].sum())
    edge = torch.arange(first, first + row.numel())
    record = RowRecord(begin, ranks.rank, torch.arange(low, high), edge, row - low, col)
    data = Data(x=x, edge_weight=weight.to(x.device))
    return DistributedGraph(record.to(x.device), ranks, data)


def _neighbors(
    points: Points, k: int, options: SearchOptions, ranks: Ranks, begin: Tensor
) -> tuple[Tensor, Tensor]:
    """Find the k nearest points of all processes for own points: numbers, distances [n, k]."""
    searcher, size = Searcher(points, k, options), ranks.size
    num_features = points.coordinates.size(1)
    step = max(1, _ASKED_NUMBERS // (num_features * size))
    count = min(k + 1, points.num_points)  # a point of the asking process finds itself
    low, rounds = int(begin[ranks.rank]), -(-int(begin.diff().max()) // step)
    found = []
    for at in range(0, rounds * step, step):
        sent = [len(range(at, min(at + step, n))) for n in begin.diff().tolist()]
        block = points.coordinates[at : at + step]
        asked = _gather(block, ranks, sent)
        number, distance = searcher.nearest(points._replace(coordinates=asked), count)
        own = at + torch.arange(len(block))
        # All answers have k + 1 columns; those of a shard of fewer points end with none.
        missing = (0, k + 1 - count)
        number = torch.nn.functional.pad(number + low, missing)
        distance = torch.nn.functional.pad(distance, missing, value=torch.inf)
        back = [len(block)] * size
        number = torch.cat(list(ranks.exchange(number, sent, back).split(back)), dim=1)
        distance = torch.cat(list(ranks.exchange(distance, sent, back).split(back)), dim=1)
        distance = distance.masked_fill(number == low + own[:, None], torch.inf)
        distance, order = distance.sort(dim=1, stable=True)  # of equals the lower rank's first
        found.append((number.gather(1, order)[:, :k], distance[:, :k]))
    return torch.cat([each[0] for each in found]), torch.cat([each[1] for each in found])


def _widths(distance: Tensor, kernel: str | None, ranks: Ranks, counts: list[int]) -> Tensor:
    """Find the widths [N] of all points, see :func:`~jsem_pyg.neighbors.affinity.node_width`."""
    last = _gather(distance[:, -1:], ranks, counts)
    if KERNELS[kernel].has_local_width:
        return _gather(local_width(distance, common_width(last)), ranks, counts)
    return node_width(last, kernel)


def _to_owners(
    source: Tensor, target: Tensor, weight: Tensor, ranks: Ranks, begin: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Bring directed edges to the process of their target; edges to others are kept as well."""
    owner = owner_of(target, begin)
    order = owner.argsort(stable=True)
    send = torch.bincount(owner, minlength=ranks.size)
    ones = [1] * ranks.size
    receive = ranks.exchange(send, ones, ones)
    ends = torch.stack([source, target], dim=1)
    sizes = send.tolist(), receive.tolist()
    arrived = ranks.exchange(ends[order], *sizes)
    weights = ranks.exchange(weight[order], *sizes)
    kept = owner != ranks.rank
    source, target = torch.cat([arrived, ends[kept]]).unbind(1)
    return source, target, torch.cat([weights, weight[kept]])


def _gather(values: Tensor, ranks: Ranks, counts: list[int]) -> Tensor:
    """Join the rows of all processes, as many as `counts` says of each, in every process."""
    copies = values.repeat(ranks.size, *[1] * (values.dim() - 1))
    return ranks.exchange(copies, [len(values)] * ranks.size, counts)
