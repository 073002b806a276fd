"""Prepares a graph: sorts its edges, pairs (i, j) with (j, i), and checks them, once.

A training step changes values, never the structure. So the costly part and everything that would
make a GPU wait happen here, when a graph is first seen, and whatever follows from the pattern alone
is owned by it; `reader.py` remembers it from call to call.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from .._checks import (
    check_device,
    check_edge_vector,
    check_edge_weight,
    check_finite,
    check_node_index,
    check_nonnegative_int,
    check_rows,
    check_symmetric,
    check_unbatched,
    numbers_of,
)
from ..kernels.csr import CSR, scipy_indices, sort_edges
from ..kernels.table import CHEBYSHEV
from ..kernels.torch_func import lasting
from .adjacency import Adjacency, read_adjacency

T = TypeVar("T")


class GraphRows(ABC):
    """Abstract: rows of an undirected graph's matrix, prepared and checked once.

    Entries of the matrix lie in *slots*. Numbers of nodes belong to the rows; `to_columns` brings
    them to all nodes that a column can stand for.

    A :class:`GraphStructure` holds all rows. `jsem_pyg.partition.DistributedGraph` holds a block of
    them; columns may belong to nodes elsewhere: what belongs to them is fetched, and its gradient
    sent back. The Laplacian is written for both, and whatever differs is a method here.

    Attributes:
        device: of the index tensors.
        num_nodes: the number n of rows, and so of the nodes of a signal.
        num_edges: E, the number of edges handed in whose rows these are.
        has_repeated_edges: whether some edge was handed in more than once.
        row: [nnz] the row of every slot.
        col: [nnz] the place of every slot's column in what `to_columns` returns.
    """

    device: torch.device
    num_nodes: int
    num_edges: int
    has_repeated_edges: bool
    row: Tensor
    col: Tensor

    def once(self, key: Any, make: Callable[[], T], given: Sequence[Any] = ()) -> T:
        """Return what `make()` makes of this graph and what is given; remembered for each key.

        It is made anew if something else is given: another object, or a tensor of other entries.
        """
        known = vars(self).setdefault("_known", {})
        before, found = known.get(key, (None, None))
        if before is None or not all(map(_is_same, before, given)):
            before = [each.clone() if isinstance(each, Tensor) else each for each in given]
            found = lasting(make)()
            known[key] = before, found
        return cast(T, found)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is remembered: a copied or unpickled graph starts without it."""
        return {name: value for name, value in vars(self).items() if name != "_known"}

    @property
    @abstractmethod
    def edges(self) -> tuple[Tensor, Tensor]:
        """The target [E] and the source [E] of every edge: places in what `to_columns` returns."""

    @abstractmethod
    def to_slots(self, values: Tensor) -> Tensor:
        """Add up values [E, ...] of the edges in the slots [nnz, ...]."""

    @abstractmethod
    def symmetric(self, values: Tensor) -> Tensor:
        """Average values [nnz] in the slots over both directions of every edge."""

    @abstractmethod
    def _check_symmetric(self, name: str, values: Tensor) -> None:
        """Raise unless values [E, ...] are alike in both directions, as far as both are here."""

    def check_weight(self, edge_weight: Tensor) -> None:
        """Raise unless weights [E] are in the supported range and alike in both directions."""
        check_edge_weight(edge_weight, self.num_edges)
        check_device("edge_weight", edge_weight.device, self.device, "edge_index")
        self._check_symmetric("edge_weight", edge_weight)

    def check_attr(self, edge_attr: Tensor) -> None:
        """Raise unless features [E, F] are finite and alike in both directions."""
        check_rows("edge_attr", edge_attr, self.num_edges, "column of 'edge_index'")
        check_device("edge_attr", edge_attr.device, self.device, "edge_index")
        check_finite("edge_attr", edge_attr)
        self._check_symmetric("edge_attr", edge_attr)

    @abstractmethod
    def make_matrix(self, off_diagonal: Tensor, diagonal: Tensor | None, backend: str) -> Any:
        """Make the operator S of entries [nnz] in the slots and, if given, [n] on the diagonal."""

    def whole(self, purpose: str, remedy: str) -> Any:
        """Return this graph as a `GraphStructure`, if all its rows are here.

        Raises:
            NotImplementedError: if these are the rows of one process; see `purpose` and `remedy`.
        """
        raise NotImplementedError(
            f"Expected a whole graph {purpose} (got the rows of one process). To fix this, "
            f"{remedy}."
        )

    def row_sums(self, values: Tensor) -> Tensor:
        """Add up values [nnz] in the slots over each row: [n]."""
        return values.new_zeros(self.num_nodes).index_add(0, self.row, values)

    def to_columns(self, values: Tensor) -> Tensor:
        """Return numbers [n, ...] of these nodes for all nodes that a column can stand for."""
        return values

    def mean(self, values: Tensor) -> Tensor:
        """Average numbers [n, ...] over all nodes of the graph: [...]."""
        return values.mean(0)

    def min_max(self, values: Tensor) -> tuple[float, float]:
        """Find the smallest and the largest value, over all processes that hold rows."""
        values = numbers_of(values)
        return (float(values.min()), float(values.max())) if values.numel() else (math.inf, 0.0)


class GraphStructure(GraphRows):
    """Holds an undirected graph without weights, sorted and checked once for many uses.

    Edges are coalesced into the *slots* of a sparse matrix: row i holds the neighbours of node i in
    ascending order. :func:`jsem_pyg.diffusion.heat_diffusion`, the layers and the functions of
    :mod:`jsem_pyg.curvature` accept a structure in place of `edge_index`; weights and edge features
    keep the order of the columns it was made from. It never changes: edits of `edge_index` after it
    was made have no effect.

    Args:
        edge_index: [2, E] tensor, `SparseTensor` or torch sparse tensor: both directions of every
            edge, no self-loops. A repeated column is a second edge: weights add up.
        num_nodes: the number N of nodes.

    Attributes:
        num_nodes: N.
        num_edges: E, the number of columns handed in.
        num_slots: nnz, the number of distinct directed edges.
        has_repeated_edges: whether some edge was handed in more than once.
        device: of the index tensors.
        rowptr: [N + 1] where each row begins.
        row, col, slot: [nnz] the row and the column of every slot; [E] the slot of every column
            of `edge_index`. Like `reverse` they are int32 wherever that is wide enough: products of
            two of them may overflow.
        csr: the pattern: :class:`~jsem_pyg.kernels.csr.CSR`, a slot for every directed edge.
        reverse: [nnz] the slot of (j, i) for the slot of (i, j).

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> GraphStructure(edge_index, num_nodes=4)
        GraphStructure(num_nodes=4, num_edges=4)
    """

    def __init__(self, edge_index: Any, num_nodes: int) -> None:
        check_nonnegative_int("num_nodes", num_nodes)
        self._build(read_adjacency(edge_index, num_nodes), int(num_nodes))

    @lasting
    def _build(self, adjacency: Adjacency, num_nodes: int) -> None:
        check_unbatched("edge_index", adjacency.row)
        row, col = numbers_of(adjacency.row), numbers_of(adjacency.col)
        found = sort_edges(row, col, num_nodes)
        if found is None:
            _refuse(row, col, num_nodes)
        self.num_nodes, self.num_edges = num_nodes, row.numel()
        self.csr, self.reverse, self._order, self._slot = found
        self.rowptr, self.row, self.col = self.csr.rowptr, self.csr.row, self.csr.col
        self.num_slots, self.device = self.csr.num_slots, self.col.device
        self.has_repeated_edges = self.num_slots != self.num_edges
        self._inverse: Tensor | None = None  # of the order, made on first use
        self._rows_are_targets = adjacency.rows_are_targets

    @property
    @lasting
    def slot(self) -> Tensor:
        """[E] the slot of every column of the input."""
        if self._slot is not None:
            return self._slot
        if self._inverse is None:
            inverse = torch.arange(self.num_slots, dtype=self.col.dtype, device=self.device)
            if self._order is not None:
                inverse = torch.empty_like(inverse).scatter_(0, self._order.long(), inverse)
            if torch.compiler.is_compiling():
                return inverse  # compiled code keeps nothing
            self._inverse = inverse
        return self._inverse

    @property
    def edges(self) -> tuple[Tensor, Tensor]:
        """The target [E] and the source [E] of every column of the input, in its order; int64."""
        row, col = (self.to_edges(each).long() for each in (self.csr.row, self.csr.col))
        return (row, col) if self._rows_are_targets else (col, row)

    def whole(self, purpose: str, remedy: str) -> "GraphStructure":
        """Return this graph, since it has all its rows."""
        return self

    @cached_property
    @lasting
    def csr_with_diagonal(self) -> tuple[CSR, Tensor]:
        """The pattern with a slot (i, i) in every row, and the order that merges the entries.

        Entries of the wider pattern are ``torch.cat([slots, diagonal])[order]``.
        """
        csr, narrow = self.csr, self.csr.col.dtype
        rowptr = csr.rowptr + torch.arange(self.num_nodes + 1, device=self.device)
        # Before a slot come the diagonals of all rows above, and that of its own if col > row.
        entries = torch.arange(self.num_slots + self.num_nodes, dtype=narrow, device=self.device)
        is_right = (csr.col > csr.row).to(narrow)
        place = entries[: self.num_slots] + csr.row + is_right
        right = rowptr.new_zeros(self.num_nodes, dtype=narrow).index_add(0, csr.row, is_right)
        places = torch.cat([place.long(), rowptr[1:] - 1 - right])
        order = torch.empty_like(entries).scatter_(0, places, entries)
        nodes = entries[: self.num_nodes]
        col = torch.cat([csr.col, nodes]).index_select(0, order)
        return CSR(rowptr, col, base=csr), order

    @property
    def num_components(self) -> int:
        """The number of connected components."""
        return int(self.component.max()) + 1 if self.num_nodes else 0

    @cached_property
    @lasting
    def component(self) -> Tensor:
        """[N] the connected component of each node, numbered from zero."""
        if self.num_nodes == 0:
            return torch.empty(0, dtype=torch.int64, device=self.device)
        shape = (self.num_nodes, self.num_nodes)
        pattern = csr_array((np.ones(self.num_slots, np.int8), *scipy_indices(self.csr)), shape)
        labels = connected_components(pattern, directed=False)[1]
        return torch.from_numpy(labels).to(self.device, torch.int64)

    def make_matrix(self, off_diagonal: Tensor, diagonal: Tensor | None, backend: str) -> Any:
        """Make the operator S of entries [nnz] in the slots and, if given, [N] on the diagonal."""
        kernel = CHEBYSHEV.find(backend, off_diagonal.device)
        if diagonal is None:
            return kernel.SparseOperator(self.csr, off_diagonal)
        pattern, order = self.csr_with_diagonal
        values = torch.cat([off_diagonal, diagonal]).index_select(0, order)
        return kernel.SparseOperator(pattern, values)

    def to_slots(self, values: Tensor) -> Tensor:
        """Add up values [E, ...] of the columns of `edge_index` in the slots [nnz, ...]."""
        if self._slot is not None:
            empty = values.new_zeros((self.num_slots, *values.shape[1:]))
            return empty.index_add(0, self._slot, values)
        return values if self._order is None else values.index_select(0, self._order)

    def to_edges(self, slots: Tensor) -> Tensor:
        """Read values [nnz] of the slots for the columns [E]; columns may share a slot."""
        in_order = self._slot is None and self._order is None
        return slots if in_order else slots.index_select(0, self.slot)

    def share_among_edges(self, slots: Tensor, weight: Tensor | None = None) -> Tensor:
        """Divide values [nnz] of the slots among their columns [E].

        Parts are as the weights [E] of the columns; equal without weights, or if these are zero.
        """
        if not self.has_repeated_edges:
            return self.to_edges(slots)
        equal = slots.new_ones(self.num_edges)
        part = equal / self.to_edges(self.to_slots(equal))
        if weight is not None:
            total = self.to_edges(self.to_slots(weight))
            part = torch.where(total > 0, weight / torch.where(total > 0, total, 1), part)
        return part.to(slots) * self.to_edges(slots)

    def symmetric(self, values: Tensor) -> Tensor:
        """Average values [nnz] in the slots over both directions of every edge."""
        return (values + values.index_select(0, self.reverse)) / 2

    def read_symmetric(self, name: str, values: Tensor) -> Tensor:
        """Average numbers [E] of the columns over both directions, in float64: [nnz]."""
        check_edge_vector(name, values, self.num_edges)
        check_finite(name, values)
        slots = self.to_slots(values.detach().to(self.device, torch.float64))
        backward = slots.index_select(0, self.reverse)
        if torch.equal(slots, backward):
            return slots
        check_symmetric(name, slots, backward, values.dtype)
        return (slots + backward) / 2

    def _check_symmetric(self, name: str, values: Tensor) -> None:
        """Raise unless values [E, ...] of the columns are alike in both directions."""
        slots = self.to_slots(values.detach())
        check_symmetric(name, slots, slots.index_select(0, self.reverse))

    def __repr__(self) -> str:
        return f"GraphStructure(num_nodes={self.num_nodes}, num_edges={self.num_edges})"


def _is_same(before: Any, given: Any) -> bool:
    if not isinstance(given, Tensor):
        return before is given
    return bool(before.dtype == given.dtype and torch.equal(before, given))


def _refuse(row: Tensor, col: Tensor, num_nodes: int) -> NoReturn:
    """Raise an error for the first fault of the edges."""
    row, col = row.long(), col.long()
    check_node_index("edge_index", torch.stack([row, col]), num_nodes)
    loops = int((row == col).sum())
    if loops:
        raise ValueError(
            f"Expected 'edge_index' without self-loops (got {loops}). To fix this, call "
            "torch_geometric.utils.remove_self_loops(edge_index, edge_weight); for a Data of "
            "directed edges or with 'edge_type', data = jsem_pyg.transforms.BothDirections()(data)."
        )
    key = row * num_nodes + col
    alone = (~torch.isin(key, col * num_nodes + row)).nonzero()[:, 0]
    i, j = int(row[alone[0]]), int(col[alone[0]])
    raise ValueError(
        "Expected 'edge_index' to be undirected, each edge in both directions (got "
        f"{alone.numel()} edges without their reverse, such as {i} -> {j}). To fix this, call "
        "torch_geometric.utils.to_undirected(edge_index, edge_weight, reduce='mean'); where a "
        "sampler or an augmentation made the edges one-sided, ask it for both directions: "
        "NeighborLoader(..., subgraph_type='bidirectional'), dropout_edge(..., "
        "force_undirected=True); for directed edges of several types, or whose directions say "
        "something, take jsem_pyg.transforms.BothDirections()."
    )
