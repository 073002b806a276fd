"""A run of training by triplets that several processes share, each with some rows of the graph.

All processes draw the same triplets from the same seed, and each keeps those whose anchor is one of
its rows; it fetches the features of other nodes. Losses are shares of one mean, and gradients are
added up before the step: every process makes the same steps, bit for bit.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .._fingerprint import describe
from ..partition import DistributedGraph, sum_gradients
from .run import Run
from .samplers import GraphTriplets, check_draw
from .triplets import Triplets


@dataclass
class DistributedRun(Run):
    """The run of one of these processes, whose graph is a `DistributedGraph`."""

    def __post_init__(self) -> None:
        self.shared: DistributedGraph = self.graph.edge_index
        self.ranks = self.shared.ranks
        self.is_first = self.ranks.rank == 0

    @torch.no_grad()
    def copy_weights(self) -> None:
        """See :class:`Run`. Lazy weights are drawn later, from the same seed."""
        for each in (*self.model.parameters(), *self.model.buffers()):
            if not nn.parameter.is_lazy(each):
                each.copy_(self.ranks.from_first(each))

    def share_of_loss(self, z: Tensor, triplets: Triplets) -> Tensor:
        """See :class:`Run`. The loss has to be a mean over triplets."""
        routes, rows = self.shared.reach(torch.stack(triplets))
        found = routes.spread(z)
        if rows.size(1) == 0:
            return 0 * found.sum()
        return self.loss(found, Triplets(*rows)) * (rows.size(1) / self.batch_size)

    def total(self, value: Tensor) -> Tensor:
        """See :class:`Run`."""
        return self.ranks.total(value)

    def sum_gradients(self) -> None:
        """See :class:`Run`."""
        sum_gradients(self.model.parameters(), group=self.ranks.group)

    def any(self, stop: bool) -> bool:
        """See :class:`Run`."""
        return bool(self.ranks.largest(torch.tensor([float(stop)])))

    def depends_on(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """See :class:`Run`. Hashes of the data of all processes are added up."""
        record = self.shared.record
        own = {name: value for name, value in settings.items() if name.startswith("data.")}
        own["data.edge_index"] = [self.shared.nodes, record.row, record.col]
        hashes = [hashlib.sha256(repr(describe(name, own[name])).encode()).digest() for name in own]
        numbers = torch.tensor([int.from_bytes(each[:4], "big") for each in hashes])
        weighed = self.ranks.total(numbers * (self.ranks.rank + 1)).tolist()
        others = {name: value for name, value in settings.items() if name not in own}
        return others | dict(zip(own, weighed, strict=True)) | {"processes": self.ranks.size}


class DistributedTriplets(GraphTriplets):
    """The triplets of :class:`GraphTriplets` whose anchor is a row of this process.

    Nodes are numbered in the order of the partition.
    """

    def __init__(self, graph: DistributedGraph, edge_weight: Tensor | None) -> None:
        self.graph = graph
        record, count = graph.record, graph.num_nodes
        first = int(record.begin[graph.ranks.rank])
        nodes = record.num_nodes_in_all
        self._prepare(record.row, record.col, edge_weight, nodes, count, first)
        counts = torch.zeros(graph.ranks.size, dtype=torch.int64)
        counts[graph.ranks.rank] = self._anchors.numel()
        counts = graph.ranks.total(counts)
        self._before = int(counts[: graph.ranks.rank].sum())
        self._num_anchors = int(counts.sum())
        if self._num_anchors == 0:
            raise ValueError(
                "Expected some node that has a neighbour to have a non-neighbour too, since a "
                "negative is a non-neighbour (got none in any process)."
            )

    def sample(self, num_triplets: int, generator: torch.Generator | None = None) -> Triplets:
        """Draw as a single process would, and keep the triplets of this one, on the CPU."""
        check_draw(num_triplets, generator)
        u = torch.rand(3, num_triplets, dtype=torch.float64, generator=generator)
        at = (u[0] * self._num_anchors).long() - self._before
        is_own = (at >= 0) & (at < self._anchors.numel())
        return self._draw(self._anchors[at[is_own]], *u[1:, is_own])
