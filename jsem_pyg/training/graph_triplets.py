"""Triplets from a graph alone."""

import torch
from torch import Tensor

from .._checks import check_edge_index, check_edge_weight, check_positive_int
from .._groups import group_starts
from .triplets import Triplets, check_draw


class GraphTriplets:
    r"""Triplets from a graph alone: the positive is a neighbour, the negative is not.

    The anchor is uniform over the nodes that have both a neighbour and a non-neighbour, the
    positive a neighbour :math:`j` of the anchor :math:`i` with probability :math:`w_{ij} /
    \sum_k w_{ik}`, the negative uniform over all nodes except the anchor and its neighbours. Both
    draws are exact (no rejection) and cost one binary search a triplet.

    Self-loops are ignored. An edge of weight zero gives neither positives nor negatives.

    Args:
        edge_index: Edges in both directions. Shape [2, E].
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

    def __init__(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
        check_positive_int("num_nodes", num_nodes)
        check_edge_index(edge_index, num_nodes)
        if edge_weight is not None:
            check_edge_weight(edge_weight, edge_index.size(1))
        row, col = edge_index
        self._prepare(row, col, edge_weight, num_nodes, num_nodes)
        if self._neighbour.numel() == 0:
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

    def _prepare(
        self,
        row: Tensor,
        col: Tensor,
        weight: Tensor | None,
        num_nodes: int,
        num_rows: int,
        first: int = 0,
    ) -> None:
        """Prepare the draws for rows that are the nodes from `first` on."""
        self.num_nodes, self._first = num_nodes, first
        row, col = row.detach().cpu().long(), col.detach().cpu().long()
        no_loop = first + row != col
        # Neighbours are distinct and sorted; a pair that occurs twice has the sum of the weights.
        key, slot = torch.unique(row[no_loop] * num_nodes + col[no_loop], return_inverse=True)
        ones = torch.ones(row.numel(), dtype=torch.float64)
        given = ones if weight is None else weight.detach().cpu().double()
        total = torch.zeros(key.numel(), dtype=torch.float64)
        total.index_add_(0, slot, given[no_loop])
        # Positives: the distribution functions of all rows, one after the other. Each row is scaled
        # to mass one first; otherwise a row of tiny weights would vanish in the running sum.
        kept = total > 0
        row, total = key[kept] // num_nodes, total[kept]
        self._neighbour = key[kept] % num_nodes
        self._row_start = group_starts(row, num_rows)
        row_mass = torch.zeros(num_rows, dtype=torch.float64).index_add_(0, row, total)
        self._cumulative = torch.cumsum(total / row_mass[row], dim=0)
        # Negatives: let e_0 < e_1 < ... be the nodes that row i excludes, i and its neighbours.
        # Before e_k lie e_k - k nodes that are not excluded, so the r-th of those (from zero) is
        # r + #{k: e_k - k <= r}. As e_k - k never decreases along a row, i N + e_k - k is sorted
        # over all rows, and one search counts.
        diagonal = torch.arange(num_rows) * (num_nodes + 1) + first
        excluded = torch.cat([key, diagonal]).sort().values
        row = excluded // num_nodes
        self._excluded_start = group_starts(row, num_rows)
        self._free_before = excluded - (torch.arange(excluded.numel()) - self._excluded_start[row])
        self._num_free = num_nodes - self._excluded_start.diff()
        has_neighbour = self._row_start.diff() > 0
        self._anchors = torch.nonzero(has_neighbour & (self._num_free > 0)).flatten()

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
        first, last = self._row_start[anchor], self._row_start[anchor + 1] - 1
        mass_before = torch.where(first > 0, self._cumulative[first - 1], 0.0)
        target = mass_before + u_positive * (self._cumulative[last] - mass_before)
        edge = torch.searchsorted(self._cumulative, target, right=True)
        # Rounding may carry the target past its row.
        positive = self._neighbour[edge.clamp(min=first, max=last)]
        r = (u_negative * self._num_free[anchor]).long()
        end = torch.searchsorted(self._free_before, anchor * self.num_nodes + r, right=True)
        return Triplets(self._first + anchor, positive, r + (end - self._excluded_start[anchor]))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_nodes={self.num_nodes}, "
            f"num_edges={self._neighbour.numel()}, num_anchors={self._anchors.numel()})"
        )
