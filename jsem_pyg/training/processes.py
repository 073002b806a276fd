"""Trains by triplets in several processes that share a graph, a `DistributedGraph`.

All processes draw the same triplets from the same seed, and keep those whose anchor is one of their
rows. Losses are shares of one mean, and gradients are added up before the step: every process makes
the same steps, bit for bit.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._fingerprint import describe
from .triplets import GraphTriplets, Triplets, TripletSampler, TripletTask


@dataclass(frozen=True)
class SharedTask(TripletTask):
    """Computes the share of this process in a loss that is a mean over triplets."""

    graph: Any

    def loss(self, z: Tensor, triplets: Triplets) -> Tensor:
        """Return the share of features z [n, C] of this process's rows."""
        routes, rows = self.graph.reach(torch.stack(triplets))
        found = routes.spread(z)
        if rows.size(1) == 0:
            return 0 * found.sum()
        return super().loss(found, Triplets(*rows)) * (rows.size(1) / self.size)


def read_shared_sampler(
    sampler: str | TripletSampler, graph: Any, edge_weight: Tensor | None
) -> TripletSampler:
    """Return the sampler "graph" for the rows of this process; there is no other."""
    if sampler != "graph":
        raise NotImplementedError(
            "Expected 'sampler' to be 'graph' where several processes share the graph (got "
            f"{sampler!r}), since each has its own nodes only."
        )
    return DistributedTriplets(graph, edge_weight)


class DistributedTriplets(GraphTriplets):
    """Draws as a single process would, and keeps the triplets whose anchor is a row of this one.

    Nodes are numbered in the order of the partition.
    """

    def __init__(self, graph: Any, edge_weight: Tensor | None) -> None:
        record, ranks = graph.record, graph.ranks
        first = int(record.begin[ranks.rank])
        self._prepare(
            record.row, record.col, edge_weight, record.num_nodes_in_all, graph.num_nodes, first
        )
        counts = torch.zeros(ranks.size, dtype=torch.int64)
        counts[ranks.rank] = self._anchors.numel()
        counts = ranks.total(counts)
        self._before = int(counts[: ranks.rank].sum())
        self._num_anchors = int(counts.sum())
        if self._num_anchors == 0:
            raise ValueError("Expected a node with a neighbour and a non-neighbour (got none).")


def settings_of_all(graph: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the data of this process by sums over the hashes of all processes' data."""
    own = {name: value for name, value in settings.items() if name.startswith("data.")}
    own["data.edge_index"] = [graph.nodes, graph.record.row, graph.record.col]
    hashes = [hashlib.sha256(repr(describe(name, own[name])).encode()).digest() for name in own]
    numbers = torch.tensor([int.from_bytes(each[:4], "big") for each in hashes])
    weighed = graph.ranks.total(numbers * (graph.ranks.rank + 1)).tolist()
    others = {name: value for name, value in settings.items() if name not in own}
    return others | dict(zip(own, weighed, strict=True)) | {"processes": graph.ranks.size}
