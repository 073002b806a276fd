"""Holds rows of a graph's matrix, all or a part of them. Operators are made of them.

A :class:`~jsem_pyg.graph.GraphStructure` holds all rows.
`jsem_pyg.partition.DistributedGraph` holds a block of them; columns may belong to nodes elsewhere:
what belongs to nodes elsewhere is fetched, and its gradient sent back. The Laplacian is written for
both at once, and so is everything that leads there: whatever differs is a method here.
"""

import math
from abc import abstractmethod
from functools import cached_property
from typing import Any

from torch import Tensor

from .._checks import check_device, check_edge_weight, check_finite, check_rows, numbers_of
from .memory import Prepared


class GraphRows(Prepared):
    """Abstract: rows of an undirected graph's matrix, prepared and checked once.

    Entries of the matrix lie in *slots*. Numbers of nodes belong to the rows; `spread` brings
    them to all nodes that a column can stand for.

    Attributes:
        num_nodes: the number n of rows, and so of the nodes of a signal.
        num_edges: E, the number of edges handed in whose rows these are.
        has_repeated_edges: whether some edge was handed in more than once.
        row: [nnz] the row of every slot.
        col: [nnz] the place of every slot's column in what `spread` returns.
    """

    num_nodes: int
    num_edges: int
    has_repeated_edges: bool
    row: Tensor
    col: Tensor

    @cached_property
    def unweighted(self) -> dict[Any, Any]:
        """Results that depend on this graph alone, without weights; others keep them here."""
        return {}

    @property
    @abstractmethod
    def edges(self) -> tuple[Tensor, Tensor]:
        """The target [E] and the source [E] of every edge, as places in what `spread` returns."""

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
        check_device("edge_weight", edge_weight.device, self.row, "edge_index")
        self._check_symmetric("edge_weight", edge_weight)

    def check_attr(self, edge_attr: Tensor) -> None:
        """Raise unless features [E, F] are finite and alike in both directions."""
        check_rows("edge_attr", edge_attr, self.num_edges, "column of 'edge_index'")
        check_device("edge_attr", edge_attr.device, self.row, "edge_index")
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

    def spread(self, values: Tensor) -> Tensor:
        """Return numbers [n, ...] of these nodes for all nodes that a column can stand for."""
        return values

    def mean(self, values: Tensor) -> Tensor:
        """Average numbers [n, ...] over all nodes of the graph: [...]."""
        return values.mean(0)

    def extent(self, values: Tensor) -> tuple[float, float]:
        """Find the smallest and the largest value, over all processes that hold rows."""
        values = numbers_of(values)
        if values.numel() == 0:
            return math.inf, 0.0
        return float(values.min()), float(values.max())
