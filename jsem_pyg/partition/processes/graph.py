"""The rows of a graph that one process holds. Layers take it in place of `edge_index`."""

import copy

import torch
from torch import Tensor
from torch_geometric.data import Data

from ..._checks import check_choice, check_symmetric
from ...graph.structure import GraphRows
from ...kernels.csr import CSR
from ...kernels.table import CHEBYSHEV
from ...operators import Operator
from .matrix import HaloOperator
from .ranks import Ranks
from .routes import Mirror, Routes, sum_over_ranks
from .rows import RowRecord


class DistributedGraph(GraphRows):
    r"""Holds this process's rows of a graph, and a halo of nodes that other processes hold.

    :func:`distribute` makes it. In place of `edge_index` it serves
    :func:`~jsem_pyg.diffusion.heat_diffusion` and the layers; signals, weights and features of
    edges are those of this process. The numbers are the ones that a single process computes.

    Every process has to make the same calls in the same order, forward and backward, also with no
    rows of its own, and to begin with the same parameters: nothing compares them. (`fit` copies
    those of the first process; in a loop of your own, set the same seed before the model is made.)

    Gradients are those of the sum of the losses of all processes: those of the rows of x and of the
    edges are complete, those of parameters and times are shares, which :func:`sum_gradients` adds
    up. (`DistributedDataParallel` takes their mean: multiply the loss by the number of processes.)

    An edge belongs to the process of its target. Values that differ between both directions are
    refused where both ends are rows of this process. Across processes, as in all gradients, the
    mean of both directions counts.

    Args:
        record: the rows that were cut out of the whole graph.
        ranks: the process group.
        data: features of the nodes and edges of this process.

    Attributes:
        data: a `Data` with the rows of x, y, masks and other tensors of nodes and edges; its
            `edge_index` is this object.
        nodes: [n] the nodes of these rows, by their index in the whole graph.
        edge: [E] its edges, likewise.
        num_nodes: n, the number of rows of this process.
        num_edges: E.
        num_nodes_in_all: N.
        halo: the rows that this process sends and receives.
        ranks: the process group.
    """

    def __init__(self, record: RowRecord, ranks: Ranks, data: Data) -> None:
        self.record, self.ranks = record, ranks
        self.nodes, self.edge = record.nodes, record.edges
        self.num_nodes, self.num_edges = record.nodes.numel(), record.edges.numel()
        self.num_nodes_in_all = record.num_nodes_in_all
        self._prepare(record)
        self.data = data
        data.edge_index = self
        data.num_nodes = self.num_nodes

    def to(self, device: torch.device | str) -> "DistributedGraph":
        """Return the same on another device, its data included."""
        data = copy.copy(self.data)
        data.edge_index = None
        return DistributedGraph(self.record.to(device), self.ranks, data.to(device))

    def _prepare(self, record: RowRecord) -> None:
        """Sort the edges into slots; columns are the rows of this process, then the halo."""
        n, begin = self.num_nodes, record.begin
        low = int(begin[record.rank])
        col = record.col - low
        is_outside = (col < 0) | (col >= n)
        outside, at = torch.unique(record.col[is_outside], return_inverse=True)
        col[is_outside] = n + at
        size = max(n + outside.numel(), 1)
        key, self._slot = torch.unique(record.row * size + col, return_inverse=True)
        row, col = key // size, key % size
        count = torch.bincount(row, minlength=n)
        self.csr = CSR(torch.cat([count.new_zeros(1), count.cumsum(0)]), col, row)
        place = torch.cat([torch.arange(low, low + n, device=col.device), outside])[col]
        self.row, self.col, self.device = row, col, col.device
        self.halo = Routes.to_places(self.ranks, begin, outside)
        self._mirror = Mirror(self.ranks, row, place, begin)
        # Both ends are here: each such slot, and the one of the other direction.
        self._inner = (col < n).nonzero()[:, 0]
        inner_row, inner_col = row[self._inner], col[self._inner]
        self._inner_reverse = self._inner[(inner_col * size + inner_row).argsort()]
        has_one_each = key.numel() == self.num_edges
        self._order = self._slot.argsort() if has_one_each else None  # the edge of each slot
        # Of all processes, which send other values if edges are repeated.
        repeated = self.ranks.largest(torch.tensor([float(not has_one_each)]))
        self.has_repeated_edges = bool(repeated.item())

    @property
    def edges(self) -> tuple[Tensor, Tensor]:
        """Return target [E] and source [E] of every edge: places in what `to_columns` returns."""
        return self.row.index_select(0, self._slot), self.col.index_select(0, self._slot)

    def to_slots(self, values: Tensor) -> Tensor:
        """Add up values [E, ...] of the edges in their slots: [nnz, ...]."""
        if self._order is not None:
            return values.index_select(0, self._order)
        empty = values.new_zeros(self.row.numel(), *values.shape[1:])
        return empty.index_add(0, self._slot, values)

    def symmetric(self, values: Tensor) -> Tensor:
        """Average values [nnz] in the slots over both directions of every edge."""
        return (values + self._mirror(values)) / 2

    def to_columns(self, values: Tensor) -> Tensor:
        """Append the numbers of the halo to numbers [n, ...] of these nodes: [n + h, ...]."""
        return self.halo.spread(values)

    def mean(self, values: Tensor) -> Tensor:
        """Average numbers [n, ...] of nodes over the nodes of all processes: [...]."""
        return sum_over_ranks(values.sum(0), self.ranks) / self.num_nodes_in_all

    def reach(self, places: Tensor) -> tuple[Routes, Tensor]:
        """Make routes that bring the rows of any nodes here; every process names its own.

        Args:
            places: any shape, places in the order of the partition.

        Returns:
            Routes, and for each place the row of what their `spread` returns.
        """
        low = int(self.record.begin[self.ranks.rank])
        is_own = (places >= low) & (places < low + self.num_nodes)
        wanted, at = torch.unique(places[~is_own], return_inverse=True)
        rows = places - low
        rows[~is_own] = self.num_nodes + at
        return Routes.to_places(self.ranks, self.record.begin, wanted), rows

    def min_max(self, values: Tensor) -> tuple[float, float]:
        """See :class:`~jsem_pyg.graph.structure.GraphRows`."""
        low, high = super().min_max(values)
        ends = self.ranks.largest(torch.tensor([-low, high], dtype=torch.float64)).tolist()
        return -ends[0], ends[1]

    def _check_symmetric(self, name: str, values: Tensor) -> None:
        """Check edges between rows of this process; nothing is sent, so that no check can hang."""
        slots = self.to_slots(values.detach())
        there, back = (slots.index_select(0, at) for at in (self._inner, self._inner_reverse))
        check_symmetric(name, there, back)

    def make_matrix(self, off_diagonal: Tensor, diagonal: Tensor | None, backend: str) -> Operator:
        """See `GraphRows`; there are CSR products of torch alone."""
        check_choice("backend", backend, ("auto", "torch"))
        CHEBYSHEV.choose("torch", off_diagonal.device)
        return HaloOperator(self.csr, self.halo, off_diagonal, diagonal)

    def __repr__(self) -> str:
        return (
            f"DistributedGraph(rank={self.ranks.rank} of {self.ranks.size}, "
            f"num_nodes={self.num_nodes} of {self.num_nodes_in_all}, num_edges={self.num_edges}, "
            f"halo={self.halo.size})"
        )
