"""Prepares a hypergraph: sorts, counts and checks its memberships, once.

A training step changes values, never the structure: :class:`HypergraphStructure` is to hypergraphs
what :class:`~jsem_pyg.graph.GraphStructure` is to graphs.
"""

from functools import cached_property

import torch
from torch import Tensor

from .._checks import (
    check_nonnegative_int,
    check_pairs,
    check_unbatched,
    check_vector,
    check_weight_range,
    numbers_of,
)
from .._groups import group_starts
from ..kernels.csr import CSR, Incidence
from ..kernels.torch_func import lasting


class HypergraphStructure:
    """Holds a hypergraph without weights, sorted and checked once for many uses.

    The hypergraph layers accept a structure in place of `hyperedge_index`, and then never look at
    the hypergraph again: weights and features of hyperedges keep the numbers of the hyperedges.

    Args:
        hyperedge_index: [2, M] memberships, as in PyG: node, hyperedge. A repeated column is a node
            that belongs twice, and counts twice.
        num_nodes: the number N of nodes; those without a hyperedge are isolated.
        num_hyperedges: the number E of hyperedges, empty ones included. None: the largest
            number in `hyperedge_index` plus one, so that empty ones at the end are lost.

    Attributes:
        node, hyperedge: [M'] the distinct memberships, sorted by node, then hyperedge.
        multiplicity: [M'] how often each was given.
        num_memberships: M'.
        size: [E] the members of each hyperedge, counted as often as they were given: its degree.

    Example:
        >>> hyperedge_index = torch.tensor([[0, 1, 2, 2, 3], [0, 0, 0, 1, 1]])
        >>> HypergraphStructure(hyperedge_index, num_nodes=5)
        HypergraphStructure(num_nodes=5, num_hyperedges=2, num_memberships=5)
    """

    @lasting
    def __init__(
        self, hyperedge_index: Tensor, num_nodes: int, num_hyperedges: int | None = None
    ) -> None:
        check_pairs("hyperedge_index", hyperedge_index, "M")
        check_nonnegative_int("num_nodes", num_nodes)
        check_unbatched("hyperedge_index", hyperedge_index)
        node, hyperedge = numbers_of(hyperedge_index).long()
        if num_hyperedges is None:
            num_hyperedges = int(hyperedge.max()) + 1 if hyperedge.numel() else 0
        check_nonnegative_int("num_hyperedges", num_hyperedges)
        _check_range("node", node, num_nodes)
        _check_range("hyperedge", hyperedge, num_hyperedges)
        self.num_nodes, self.num_hyperedges = num_nodes, num_hyperedges
        width = max(num_hyperedges, 1)
        key, self.multiplicity = torch.unique(node * width + hyperedge, return_counts=True)
        self.node, self.hyperedge = key // width, key % width
        self.num_memberships, self.device = self.node.numel(), self.node.device
        self.size = torch.bincount(hyperedge, minlength=num_hyperedges)

    @cached_property
    @lasting
    def incidence(self) -> tuple[Incidence, Incidence]:
        """H [N, E] and its transpose: how often each node belongs to each hyperedge."""
        h = CSR(group_starts(self.node, self.num_nodes), self.hyperedge)
        order = self.hyperedge.argsort(stable=True)
        starts = group_starts(self.hyperedge[order], self.num_hyperedges)
        h_t = CSR(starts, self.node[order])
        return (
            Incidence(h, self.multiplicity, self.num_hyperedges),
            Incidence(h_t, self.multiplicity[order], self.num_nodes),
        )

    @cached_property
    @lasting
    def pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Every ordered pair of members of a hyperedge: [P] each, as many as sizes squared.

        The hyperedge, the place i N + j of the nodes i and j in a table [N, N], and the product of
        both multiplicities.
        """
        h_t = self.incidence[1]
        node, partners = h_t.csr.col, h_t.csr.degree[h_t.csr.row.long()]  # with itself
        left = torch.arange(node.numel(), device=self.device).repeat_interleave(partners)
        first = partners.cumsum(0) - partners  # the first pair of each left member
        right = h_t.csr.rowptr[h_t.csr.row[left].long()] - first[left]
        right = right + torch.arange(left.numel(), device=self.device)
        place = node[left].long() * self.num_nodes + node[right]
        return h_t.csr.row[left], place, (h_t.value[left] * h_t.value[right]).double()

    def check_weight(self, hyperedge_weight: Tensor) -> None:
        """Raise unless `hyperedge_weight` [E] is in the supported range."""
        self.check_weight_shape(hyperedge_weight)
        check_weight_range("hyperedge_weight", hyperedge_weight)

    def check_weight_shape(self, hyperedge_weight: Tensor) -> None:
        """Raise unless `hyperedge_weight` is a floating-point tensor of shape [E]."""
        check_vector("hyperedge_weight", hyperedge_weight, self.num_hyperedges, "hyperedge")

    def __repr__(self) -> str:
        return (
            f"HypergraphStructure(num_nodes={self.num_nodes}, "
            f"num_hyperedges={self.num_hyperedges}, num_memberships={self.num_memberships})"
        )


def _check_range(what: str, index: Tensor, count: int) -> None:
    if index.numel() == 0:
        return
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= count:
        raise ValueError(
            f"Expected 'hyperedge_index' to hold {what} numbers in [0, {count}) "
            f"(got values from {low} to {high}). To fix this, see that its rows are node, "
            f"hyperedge, and that features or weights count every {what}."
        )
