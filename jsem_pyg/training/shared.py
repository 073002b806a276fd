"""Training of one model by several processes that share a graph, as one process trains it.

All draw the same triplets from the same seed, and each keeps those whose anchor is one of its rows;
features of other nodes come from where they are. Losses are shares of one mean, and gradients are
added up before the step: every process makes the same steps, bit for bit.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from .._fingerprint import describe
from ..partition import DistributedGraph, sum_gradients
from .graph_triplets import GraphTriplets, RowEdges
from .losses import Loss
from .triplets import Triplets, check_draw


class Alone:
    """A single process, which has nobody to ask."""

    is_first = True

    def start_alike(self, model: nn.Module) -> None:
        """Give all processes the weights of the first."""

    def loss(self, loss: Loss, z: Tensor, triplets: Triplets, count: int) -> Tensor:
        """This process's share of the loss of `count` triplets."""
        return loss(z, triplets)

    def total(self, value: Tensor) -> Tensor:
        """The sum of what all processes have of a number."""
        return value.detach()

    def add_gradients(self, model: nn.Module) -> None:
        """Add up the gradients of all processes."""

    def agree(self, stop: bool) -> bool:
        """Whether any process says so."""
        return stop

    def settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """What has to be the same when a run is resumed, of all processes."""
        return dict(settings)


class Together(Alone):
    """Several processes.

    Args:
        graph: what this one has of the graph.
    """

    def __init__(self, graph: DistributedGraph) -> None:
        self.graph, self.ranks = graph, graph.ranks
        self.is_first = graph.ranks.rank == 0

    @torch.no_grad()
    def start_alike(self, model: nn.Module) -> None:
        """See :class:`Alone`."""
        for each in (*model.parameters(), *model.buffers()):
            if not nn.parameter.is_lazy(each):
                each.copy_(self.ranks.from_first(each))

    def loss(self, loss: Loss, z: Tensor, triplets: Triplets, count: int) -> Tensor:
        """See :class:`Alone`. The loss has to be a mean over triplets."""
        routes, rows = self.graph.reach(torch.stack(triplets))
        found = routes.spread(z)
        if rows.size(1) == 0:
            return 0 * found.sum()
        return loss(found, Triplets(*rows)) * (rows.size(1) / count)

    def total(self, value: Tensor) -> Tensor:
        """See :class:`Alone`."""
        return self.ranks.total(value)

    def add_gradients(self, model: nn.Module) -> None:
        """See :class:`Alone`."""
        sum_gradients(model.parameters(), group=self.ranks.group)

    def agree(self, stop: bool) -> bool:
        """See :class:`Alone`."""
        return bool(self.ranks.largest(torch.tensor([float(stop)])))

    def settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """See :class:`Alone`: data differ from process to process, so all are told by one hash."""
        own = {name: value for name, value in settings.items() if name.startswith("data.")}
        own["data.edge_index"] = [self.graph.nodes, self.graph.record.row, self.graph.record.col]
        hashes = [hashlib.sha256(repr(describe(name, own[name])).encode()).digest() for name in own]
        # A number of each hash, added up, so that every process has the same one.
        numbers = torch.tensor([int.from_bytes(each[:4], "big") for each in hashes])
        weighed = self.ranks.total(numbers * (self.ranks.rank + 1)).tolist()
        others = {name: value for name, value in settings.items() if name not in own}
        return others | dict(zip(own, weighed, strict=True)) | {"processes": self.ranks.size}


def company_of(data: Data) -> Alone:
    """The processes that share the graph of `data`."""
    edge_index = data.edge_index
    return Together(edge_index) if isinstance(edge_index, DistributedGraph) else Alone()


class SharedGraphTriplets(GraphTriplets):
    """Of the triplets that one process would draw, those whose anchor is a row of this one.

    Nodes are places in the order of the partition: the draws are those of :class:`GraphTriplets`
    on the graph whose nodes are numbered so.

    Args:
        graph: what this process has of the graph.
        edge_weight: Non-negative weights; all ones if omitted. Shape [E].

    Raises:
        ValueError: If no node of any process can be an anchor.
    """

    def __init__(self, graph: DistributedGraph, edge_weight: Tensor | None) -> None:
        self.graph = graph
        first = int(graph.record.begin[graph.ranks.rank])
        self._prepare(
            _read_rows(graph, edge_weight), graph.num_nodes_in_all, graph.num_nodes, first
        )
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
        """Draw as one process would, and keep what is this one's: places, on the CPU."""
        check_draw(num_triplets, generator)
        u = torch.rand(3, num_triplets, dtype=torch.float64, generator=generator)
        at = (u[0] * self._num_anchors).long() - self._before
        is_own = (at >= 0) & (at < self._anchors.numel())
        return self._draw(self._anchors[at[is_own]], *u[1:, is_own])


def _read_rows(graph: DistributedGraph, edge_weight: Tensor | None) -> RowEdges:
    """The slots of these rows, sorted by row, then by the place of the column."""
    record = graph.record
    weight = torch.ones(graph.num_edges) if edge_weight is None else edge_weight.detach()
    key = record.row * record.num_nodes_in_all + record.col
    distinct, slot = torch.unique(key.cpu(), return_inverse=True)
    total = torch.zeros(distinct.numel(), dtype=torch.float64)
    total.index_add_(0, slot, weight.cpu().double())
    row, col = distinct // record.num_nodes_in_all, distinct % record.num_nodes_in_all
    return RowEdges(row, col, total, distinct)
