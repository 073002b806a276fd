"""Rows of a graph's matrix: all of them, or those of one process. Operators are made of them.

A :class:`~jsem_pyg.graph.GraphStructure` holds all rows.
`jsem_pyg.partition.DistributedGraph` holds a block of them, whose columns reach beyond it:
what belongs to nodes elsewhere is fetched, and its gradient sent back. The Laplacian is written for
both at once, and so is everything that leads there: whatever differs is a method here.
"""

from abc import abstractmethod
from typing import Any

from torch import Tensor

from .._checks import check_degree, check_device, check_edge_weight, check_finite, check_rows
from .._precision import widen
from ..kernels.torch_func import LightFunction, check_forward_mode
from .memory import Prepared


class GraphRows(Prepared):
    """Abstract: rows of an undirected graph's matrix, prepared and checked once.

    Entries of the matrix lie in *slots*. Numbers of nodes are those of the rows; `spread` brings
    them to all nodes that a column may be.

    Attributes:
        num_nodes: the number n of rows, and so of the nodes of a signal.
        num_edges: E, the number of edges handed in whose rows these are.
        has_repeated_edges: whether some edge was handed in more than once.
        row: [nnz] the row of every slot.
        col: [nnz] the place of every slot's column in what `spread` returns.
        can_remember: whether an operator of unchanged weights may be taken from a memory; not where
            processes make it together, since each knows only its own weights.
    """

    num_nodes: int
    num_edges: int
    has_repeated_edges: bool
    row: Tensor
    col: Tensor
    can_remember: bool = True

    @property
    @abstractmethod
    def component(self) -> Tensor:
        """[n] the connected component of each row, numbered from zero."""

    @property
    @abstractmethod
    def num_components(self) -> int:
        """The number of connected components that `component` may name."""

    @property
    @abstractmethod
    def edges(self) -> tuple[Tensor, Tensor]:
        """The target [E] and the source [E] of every edge, as places in what `spread` returns."""

    @abstractmethod
    def to_slots(self, values: Tensor) -> Tensor:
        """[E, ...] values of the edges -> their sums [nnz, ...] in the slots."""

    @abstractmethod
    def symmetric(self, values: Tensor) -> Tensor:
        """[nnz] values in the slots -> the mean of both directions of every edge, halves first."""

    @abstractmethod
    def _check_symmetric(self, name: str, values: Tensor) -> None:
        """Raise unless values [E, ...] are alike in both directions, as far as both are here."""

    def check_weight(self, edge_weight: Tensor) -> None:
        """Raise unless weights [E] are finite, non-negative and alike in both directions.

        Their sums, the degrees, have to be finite as well: of an infinite one the operator would
        make a node without edges.
        """
        check_edge_weight(edge_weight, self.num_edges)
        check_device("edge_weight", edge_weight.device, self.row, "edge_index")
        check_degree("edge_weight", edge_weight, self.num_edges, self._degree)
        self._check_symmetric("edge_weight", edge_weight)

    def check_attr(self, edge_attr: Tensor) -> None:
        """Raise unless features [E, F] are finite and alike in both directions."""
        check_rows("edge_attr", edge_attr, self.num_edges, "column of 'edge_index'")
        check_device("edge_attr", edge_attr.device, self.row, "edge_index")
        check_finite("edge_attr", edge_attr)
        self._check_symmetric("edge_attr", edge_attr)

    def _degree(self, edge_weight: Tensor) -> Tensor:
        return self.row_sums(self.to_slots(edge_weight))

    @abstractmethod
    def make_matrix(self, off_diagonal: Tensor, diagonal: Tensor | None, backend: str) -> Any:
        """The operator S of entries [nnz] in the slots, and [n] on the diagonal, if it has one."""

    def whole(self, purpose: str, remedy: str) -> Any:
        """Return this graph where all its rows are here, as a `GraphStructure`.

        Raises:
            NotImplementedError: if these are the rows of one process; see `purpose` and `remedy`.
        """
        raise NotImplementedError(
            f"Expected a whole graph {purpose} (got the rows of one process). To fix this, "
            f"{remedy}."
        )

    @property
    def one_way(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """As `edges`, one direction of each where that is cheaper; and [E] where each edge is.

        The last is None where all edges are there, in their order.
        """
        return *self.edges, None

    def widen(self, edge_weight: Tensor) -> Tensor:
        """Checked weights in the type that their range needs."""
        return widen(edge_weight)

    def share_range(self, scaling: Any) -> Any:
        """The scaling of an operator, with what rates and scales all processes have."""
        return scaling

    def row_sums(self, values: Tensor) -> Tensor:
        """[nnz] values in the slots -> their sums [n] over each row."""
        return _SumRows.call(values, self.row, self.num_nodes)

    def spread(self, values: Tensor) -> Tensor:
        """[n, ...] numbers of these nodes -> those of all nodes that a column may be."""
        return values

    def mean(self, values: Tensor) -> Tensor:
        """[n, ...] numbers of nodes -> their mean [...] over all nodes of the graph."""
        return values.mean(0)

    def largest(self, values: Tensor) -> Tensor:
        """The largest of each entry over all processes that hold rows; not differentiable."""
        return values

    def largest_of_components(self, values: Tensor) -> Tensor:
        """[nnz] values >= 0 in the slots -> the largest of every component, -1 if it has none."""
        lowest = values.new_full((self.num_components,), -1.0)
        of_slot = self.component.index_select(0, self.row)
        return lowest.scatter_reduce(0, of_slot, values, "amax")


class _SumRows(LightFunction):
    """(values [nnz], row [nnz], n) -> sums [n]; torch's `index_add` would keep the values."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, row: Tensor, num_rows: int) -> Tensor:
        return values.new_zeros(num_rows).index_add(0, row, values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.num_rows = inputs[2]
        ctx.save_for_backward(inputs[1])
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (row,) = ctx.saved_tensors
        return grad.index_select(0, row), None, None

    @staticmethod
    def jvp(ctx: Any, of_values: Tensor, *_: None) -> Tensor:
        check_forward_mode()
        (row,) = ctx.saved_tensors
        return of_values.new_zeros(ctx.num_rows).index_add(0, row, of_values)
