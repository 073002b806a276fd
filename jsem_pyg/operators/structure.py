"""What is prepared once for a graph: sorting, the pairing of (i, j) with (j, i), the checks.

A training step changes values, never the structure. So the costly part and everything that would
make a GPU wait happen here, when a graph is first seen; `cache.py` remembers it.
"""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from .._checks import check_edge_weight, check_finite, check_node_index, check_symmetric
from ..kernels.csr import CSR
from .adjacency import Adjacency, read_adjacency


class GraphStructure:
    """An undirected graph without weights, sorted and checked once, to be used many times.

    Edges are coalesced into the *slots* of a CSR matrix: row i holds the neighbours of node i in
    ascending order. :func:`jsem_pyg.diffusion.heat_diffusion` and the layers accept a structure in
    place of `edge_index`; weights and edge features keep the order of the columns it was made from.

    Args:
        edge_index: [2, E] tensor, `SparseTensor` or torch sparse tensor: both directions of every
            edge, no self-loops. A repeated column is a second edge: weights add up.
        num_nodes: the number N of nodes.

    Attributes:
        num_nodes: N.
        num_edges: E, the number of columns handed in.
        row, col: [nnz] target and source of every slot, sorted by row, then column.
        rowptr: [N + 1] where each row begins.
        slot: [E] the slot of every column of `edge_index`.
        reverse: [nnz] the slot of (j, i) for the slot of (i, j).

    Raises:
        ValueError: if an edge has no reverse, is a self-loop or leaves the range of the nodes.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> GraphStructure(edge_index, num_nodes=4)
        GraphStructure(num_nodes=4, num_edges=4)
    """

    def __init__(self, edge_index: Any, num_nodes: int) -> None:
        self._build(read_adjacency(edge_index, num_nodes), num_nodes)

    @classmethod
    def from_adjacency(cls, adjacency: Adjacency, num_nodes: int) -> "GraphStructure":
        """Prepare a graph that :func:`read_adjacency` has read already."""
        structure = cls.__new__(cls)
        structure._build(adjacency, num_nodes)
        return structure

    @torch.inference_mode(False)  # what is kept may serve training later
    def _build(self, adjacency: Adjacency, num_nodes: int) -> None:
        target, source = adjacency.target.long(), adjacency.source.long()
        check_node_index("edge_index", torch.stack([target, source]), num_nodes)
        loops = int((target == source).sum())
        if loops:
            raise ValueError(
                f"Expected 'edge_index' without self-loops (got {loops}). To fix this, call "
                "torch_geometric.utils.remove_self_loops(edge_index, edge_weight)."
            )
        key, self.slot = torch.unique(target * num_nodes + source, return_inverse=True)
        self.num_nodes, self.num_edges = num_nodes, target.numel()
        self.row, self.col = key // max(num_nodes, 1), key % max(num_nodes, 1)
        self.reverse = self._pair(key)
        counts = torch.bincount(self.row, minlength=num_nodes)
        self.rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])

    def _pair(self, key: Tensor) -> Tensor:
        """Find the slot of (j, i) for every slot (i, j): the keys are sorted."""
        wanted = self.col * self.num_nodes + self.row
        found = torch.searchsorted(key, wanted).clamp(max=max(key.numel() - 1, 0))
        alone = key[found] != wanted
        if bool(alone.any()):
            first = int(alone.nonzero()[0, 0])
            raise ValueError(
                "Expected 'edge_index' to be undirected, each edge in both directions (got "
                f"{int(alone.sum())} edges without their reverse, such as "
                f"{int(self.col[first])} -> {int(self.row[first])}). To fix this, call "
                "torch_geometric.utils.to_undirected(edge_index, edge_weight, reduce='mean')."
            )
        return found

    @property
    def num_slots(self) -> int:
        """The number nnz of distinct directed edges."""
        return self.row.numel()

    @property
    def device(self) -> torch.device:
        """Where the index tensors live."""
        return self.row.device

    @cached_property
    @torch.inference_mode(False)
    def _order(self) -> Tensor | None:
        """The column that fills each slot, or None where some slot has several columns."""
        if self.num_edges != self.num_slots:
            return None
        return torch.empty_like(self.slot).scatter_(
            0, self.slot, torch.arange(self.num_edges, device=self.device)
        )

    @cached_property
    @torch.inference_mode(False)
    def edges(self) -> tuple[Tensor, Tensor]:
        """The target [E] and source [E] of every column of the input, in its order."""
        return self.row[self.slot], self.col[self.slot]

    @cached_property
    def csr(self) -> CSR:
        """The pattern, a slot for every directed edge."""
        return CSR(self.rowptr, self.row, self.col)

    @cached_property
    @torch.inference_mode(False)
    def csr_with_diagonal(self) -> tuple[CSR, Tensor]:
        """The pattern with a slot (i, i) in every row, and the order that merges the entries.

        Entries of the wider pattern are ``torch.cat([slots, diagonal])[order]``.
        """
        nodes = torch.arange(self.num_nodes, device=self.device)
        row, col = torch.cat([self.row, nodes]), torch.cat([self.col, nodes])
        order = (row * max(self.num_nodes, 1) + col).argsort()
        rowptr = self.rowptr + torch.arange(self.num_nodes + 1, device=self.device)
        return CSR(rowptr, row[order], col[order]), order

    @cached_property
    def num_components(self) -> int:
        """The number of connected components."""
        return int(self.component.max()) + 1 if self.num_nodes else 0

    @cached_property
    @torch.inference_mode(False)
    def component(self) -> Tensor:
        """[N] the connected component of each node, numbered from zero."""
        ones, shape = np.ones(self.num_slots), (self.num_nodes, self.num_nodes)
        if self.num_nodes == 0:
            return self.row
        pattern = csr_array((ones, self.col.cpu().numpy(), self.rowptr.cpu().numpy()), shape)
        labels = connected_components(pattern, directed=False)[1]
        return torch.from_numpy(labels).to(self.device, torch.int64)

    def to_slots(self, values: Tensor) -> Tensor:
        """[E, ...] values of the columns of `edge_index` -> their sums [nnz, ...] in the slots."""
        if self._order is not None:
            return values.index_select(0, self._order)
        empty = values.new_zeros((self.num_slots, *values.shape[1:]))
        return empty.index_add(0, self.slot, values)

    def to_edges(self, slots: Tensor) -> Tensor:
        """[nnz] values in the slots -> [E]: columns that share a slot get equal parts of it."""
        if self._order is None:
            ones = slots.new_ones(self.num_edges)
            slots = slots / slots.new_zeros(self.num_slots).index_add(0, self.slot, ones)
        return slots.index_select(0, self.slot)

    def check_weight(self, edge_weight: Tensor) -> None:
        """Raise unless `edge_weight` [E] is finite, non-negative and alike in both directions."""
        check_edge_weight(edge_weight, self.num_edges)
        self._check_symmetric("edge_weight", edge_weight)

    def check_attr(self, edge_attr: Tensor) -> None:
        """Raise unless `edge_attr` [E, F] is finite and alike in both directions."""
        check_finite("edge_attr", edge_attr)
        self._check_symmetric("edge_attr", edge_attr)

    def _check_symmetric(self, name: str, values: Tensor) -> None:
        slots = self.to_slots(values.detach())
        check_symmetric(name, slots, slots[self.reverse])

    def __repr__(self) -> str:
        return f"GraphStructure(num_nodes={self.num_nodes}, num_edges={self.num_edges})"
