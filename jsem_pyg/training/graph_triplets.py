"""Triplets from a graph alone."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._checks import check_edge_index, check_edge_weight, check_positive_int
from .._groups import group_starts
from ..graph import GraphStructure
from .triplets import Triplets, check_draw


class GraphTriplets:
    r"""Triplets from a graph alone: the positive is a neighbour, the negative is not.

    The anchor is uniform over the nodes that have both a neighbour and a non-neighbour, the
    positive a neighbour :math:`j` of the anchor :math:`i` with probability :math:`w_{ij} /
    \sum_k w_{ik}`, the negative uniform over all nodes except the anchor and its neighbours. Both
    draws are exact (no rejection) and cost one binary search a triplet.

    Self-loops are ignored. An edge of weight zero gives neither positives nor negatives.

    Args:
        edge_index: Edges in both directions. Shape [2, E], or a
            :class:`~jsem_pyg.graph.GraphStructure`, which saves sorting them again.
        edge_weight: Non-negative weights; all ones if omitted. Shape [E].
        num_nodes: Number of nodes N, isolated ones included.

    Raises:
        TypeError: If the edges or weights are not tensors of the right type.
        ValueError: If the edges or weights are malformed, or if no node can be an anchor: there
            are no edges, or every node that has a neighbour is adjacent to all others.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> triplets = GraphTriplets(path, None, num_nodes=3).sample(4)
        >>> triplets.positive  # the only neighbour of both ends is node 1
        tensor([1, 1, 1, 1])
        >>> (triplets.anchor + triplets.negative).tolist()  # each end is the other's negative
        [2, 2, 2, 2]
    """

    def __init__(
        self, edge_index: Tensor | GraphStructure, edge_weight: Tensor | None, num_nodes: int
    ) -> None:
        check_positive_int("num_nodes", num_nodes)
        if isinstance(edge_index, GraphStructure):
            edges = _read_structure(edge_index, edge_weight, num_nodes)
        else:
            edges = _read_edge_index(edge_index, edge_weight, num_nodes)
        self._prepare(edges, num_nodes, num_nodes)
        self._check_anchors()

    def _prepare(self, edges: "RowEdges", num_nodes: int, num_rows: int, first: int = 0) -> None:
        """Prepare the draws for rows that are the nodes from `first` on."""
        self.num_nodes, self._num_rows, self._first = num_nodes, num_rows, first
        # Positives: the distribution functions of all rows, one after the other. Each row is scaled
        # to mass one first; otherwise a row of tiny weights would vanish in the running sum.
        kept = edges.weight > 0
        row, weight = edges.row[kept], edges.weight[kept]
        self._neighbour = edges.col[kept]
        self._row_start = group_starts(row, num_rows)
        row_mass = torch.zeros(num_rows, dtype=torch.float64).index_add_(0, row, weight)
        self._cumulative = torch.cumsum(weight / row_mass[row], dim=0)
        # Negatives: let e_0 < e_1 < ... be the nodes that row i excludes, i and its neighbours.
        # Before e_k lie e_k - k nodes that are not excluded, so the r-th of those (from zero) is
        # r + #{k: e_k - k <= r}. As e_k - k never decreases along a row, i N + e_k - k is sorted
        # over all rows, and one search counts.
        excluded = _with_diagonal(edges.key, num_nodes, num_rows, first)
        row = excluded // num_nodes
        self._excluded_start = group_starts(row, num_rows)
        self._free_before = excluded - (torch.arange(excluded.numel()) - self._excluded_start[row])
        self._num_free = num_nodes - self._excluded_start.diff()
        has_neighbour = self._row_start.diff() > 0
        self._anchors = torch.nonzero(has_neighbour & (self._num_free > 0)).flatten()

    def _check_anchors(self) -> None:
        if not bool((self._row_start.diff() > 0).any()):
            raise ValueError(
                "Expected a graph with at least one edge of positive weight between two different "
                f"nodes, since a positive is a neighbour (got {self.num_nodes} nodes, none with "
                "a neighbour)."
            )
        if self._anchors.numel() == 0:
            raise ValueError(
                "Expected some node that has a neighbour to have a non-neighbour too, since a "
                "negative is a non-neighbour (got a graph in which each is adjacent to all "
                f"{self.num_nodes - 1} others). Use fewer neighbours k, or sampler='labels'."
            )

    def sample(self, num_triplets: int, generator: torch.Generator | None = None) -> Triplets:
        """Draw triplets independently of each other, with replacement.

        Args:
            num_triplets: Number of triplets M.
            generator: Source of the randomness, on the CPU; torch's own if omitted.

        Returns:
            M triplets, on the CPU.
        """
        check_draw(num_triplets, generator)
        u = torch.rand(3, num_triplets, dtype=torch.float64, generator=generator)
        anchor = self._anchors[(u[0] * self._anchors.numel()).long()]
        return self._draw(anchor, u[1], u[2])

    def _draw(self, anchor: Tensor, u_positive: Tensor, u_negative: Tensor) -> Triplets:
        """The triplets of anchors among the rows, for numbers drawn from [0, 1)."""
        positive = self._draw_positive(anchor, u_positive)
        negative = self._draw_negative(anchor, u_negative)
        return Triplets(self._first + anchor, positive, negative)

    def _draw_positive(self, anchor: Tensor, u: Tensor) -> Tensor:
        first, last = self._row_start[anchor], self._row_start[anchor + 1] - 1
        mass_before = torch.where(first > 0, self._cumulative[first - 1], 0.0)
        target = mass_before + u * (self._cumulative[last] - mass_before)
        edge = torch.searchsorted(self._cumulative, target, right=True)
        # Rounding may carry the target past its row.
        return self._neighbour[edge.clamp(min=first, max=last)]

    def _draw_negative(self, anchor: Tensor, u: Tensor) -> Tensor:
        r = (u * self._num_free[anchor]).long()
        end = torch.searchsorted(self._free_before, anchor * self.num_nodes + r, right=True)
        return r + (end - self._excluded_start[anchor])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_nodes={self.num_nodes}, "
            f"num_edges={self._neighbour.numel()}, num_anchors={self._anchors.numel()})"
        )


class RowEdges(NamedTuple):
    """Edges of some rows without self-loops, on the CPU, sorted by row; a pair may occur twice."""

    row: Tensor  # [M] int64, the anchor
    col: Tensor  # [M] int64, its neighbour
    weight: Tensor  # [M] float64, >= 0
    key: Tensor  # [K] row N + col of the distinct pairs, ascending


def _read_edge_index(edge_index: Any, edge_weight: Tensor | None, num_nodes: int) -> RowEdges:
    """Sort edges [2, E] in any order."""
    check_edge_index(edge_index, num_nodes)
    weight = _weight_or_ones(edge_weight, edge_index.size(1))
    row, col = edge_index.detach().cpu().long()
    no_loop = row != col
    row, col, weight = row[no_loop], col[no_loop], weight[no_loop]
    order = row.argsort(stable=True)
    key = torch.unique(row * num_nodes + col)
    return RowEdges(row[order], col[order], weight[order], key)


def _read_structure(
    structure: GraphStructure, edge_weight: Tensor | None, num_nodes: int
) -> RowEdges:
    """The slots of a structure, already sorted."""
    if structure.num_nodes != num_nodes:
        raise ValueError(
            f"Expected 'num_nodes' to be {structure.num_nodes}, as the prepared 'edge_index' has "
            f"(got {num_nodes})."
        )
    weight = _weight_or_ones(edge_weight, structure.num_edges)
    row, col = structure.row.cpu().long(), structure.col.cpu().long()
    total = torch.zeros_like(row, dtype=torch.float64).index_add_(0, structure.slot.cpu(), weight)
    return RowEdges(row, col, total, row * num_nodes + col)


def _weight_or_ones(edge_weight: Tensor | None, num_edges: int) -> Tensor:
    if edge_weight is None:
        return torch.ones(num_edges, dtype=torch.float64)
    check_edge_weight(edge_weight, num_edges)
    return edge_weight.detach().cpu().double()


def _with_diagonal(key: Tensor, num_nodes: int, num_rows: int, first: int) -> Tensor:
    """Merge the keys i N + i' of all rows i, nodes i' = first + i, into ascending keys, unsorted.

    The keys lack these.
    """
    row, col = key // num_nodes, key % num_nodes
    # Before an edge come the diagonals of all rows above, and that of its own row if col > row.
    place = torch.arange(key.numel()) + row + (col > first + row)
    is_edge = torch.zeros(key.numel() + num_rows, dtype=torch.bool)
    is_edge[place] = True
    merged = torch.empty(is_edge.numel(), dtype=torch.int64)
    merged[is_edge] = key
    merged[~is_edge] = torch.arange(num_rows) * (num_nodes + 1) + first
    return merged
