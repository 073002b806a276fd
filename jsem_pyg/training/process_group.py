"""The process group that trains one model: a single process, or several that share a graph.

In a group of several, all processes draw the same triplets from the same seed, and each keeps those
whose anchor is one of its rows; it fetches the features of other nodes. Losses are shares of one
mean, and gradients are added up before the step: every process makes the same steps, bit for bit.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .._checks import check_choice
from .._fingerprint import describe
from ..partition import DistributedGraph, sum_gradients
from .samplers import GraphTriplets, LabelTriplets, check_draw
from .training_graph import TrainingGraph
from .triplets import Loss, Triplets, TripletSampler


class LocalGroup:
    """A single process."""

    is_first = True  # of the group: it writes files and shows a bar

    def copy_weights(self, model: nn.Module) -> None:
        """Give all processes the weights of the first."""

    def share_of_loss(self, loss: Loss, z: Tensor, triplets: Triplets, count: int) -> Tensor:
        """This process's share of the loss of `count` triplets."""
        return loss(z, triplets)

    def total(self, value: Tensor) -> Tensor:
        """The sum of the values of all processes."""
        return value.detach()

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Add up the gradients of all processes."""

    def any(self, stop: bool) -> bool:
        """True if it is true in any process."""
        return stop

    def settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that a run of the whole group depends on."""
        return dict(settings)


class DistributedGroup(LocalGroup):
    """Several processes, each with some rows of a graph."""

    def __init__(self, graph: DistributedGraph) -> None:
        self.graph, self.ranks = graph, graph.ranks
        self.is_first = graph.ranks.rank == 0

    @torch.no_grad()
    def copy_weights(self, model: nn.Module) -> None:
        """See :class:`LocalGroup`. Lazy weights are drawn later, from the same seed."""
        for each in (*model.parameters(), *model.buffers()):
            if not nn.parameter.is_lazy(each):
                each.copy_(self.ranks.from_first(each))

    def share_of_loss(self, loss: Loss, z: Tensor, triplets: Triplets, count: int) -> Tensor:
        """See :class:`LocalGroup`. The loss has to be a mean over triplets."""
        routes, rows = self.graph.reach(torch.stack(triplets))
        found = routes.spread(z)
        if rows.size(1) == 0:
            return 0 * found.sum()
        return loss(found, Triplets(*rows)) * (rows.size(1) / count)

    def total(self, value: Tensor) -> Tensor:
        """See :class:`LocalGroup`."""
        return self.ranks.total(value)

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """See :class:`LocalGroup`."""
        sum_gradients(parameters, group=self.ranks.group)

    def any(self, stop: bool) -> bool:
        """See :class:`LocalGroup`."""
        return bool(self.ranks.largest(torch.tensor([float(stop)])))

    def settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """See :class:`LocalGroup`. Hashes of the data of all processes are added up."""
        own = {name: value for name, value in settings.items() if name.startswith("data.")}
        own["data.edge_index"] = [self.graph.nodes, self.graph.record.row, self.graph.record.col]
        hashes = [hashlib.sha256(repr(describe(name, own[name])).encode()).digest() for name in own]
        numbers = torch.tensor([int.from_bytes(each[:4], "big") for each in hashes])
        weighed = self.ranks.total(numbers * (self.ranks.rank + 1)).tolist()
        others = {name: value for name, value in settings.items() if name not in own}
        return others | dict(zip(own, weighed, strict=True)) | {"processes": self.ranks.size}


def process_group(
    graph: TrainingGraph, sampler: Literal["graph", "labels"] | TripletSampler
) -> tuple[LocalGroup, TripletSampler]:
    """The processes that share a graph, and the sampler of the argument of `fit_triplets`."""
    if isinstance(graph.edge_index, DistributedGraph):
        if sampler != "graph":
            raise NotImplementedError(
                "Expected 'sampler' to be 'graph' where several processes share the graph (got "
                f"{sampler!r}), since each has its own nodes only."
            )
        triplets = DistributedTriplets(graph.edge_index, graph.edge_weight)
        return DistributedGroup(graph.edge_index), triplets
    if not isinstance(sampler, str):
        if not callable(getattr(sampler, "sample", None)):
            raise TypeError(
                "Expected 'sampler' to be 'graph', 'labels' or an object with "
                f"sample(num_triplets, generator) (got {sampler!r})."
            )
        return LocalGroup(), sampler
    check_choice("sampler", sampler, ("graph", "labels"))
    if sampler == "graph":
        return LocalGroup(), GraphTriplets(graph.edge_index, graph.edge_weight, graph.x.size(0))
    return LocalGroup(), LabelTriplets(graph.labels_on_mask())


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
