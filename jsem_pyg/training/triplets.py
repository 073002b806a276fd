"""Triplets (anchor, positive, negative): the positive should end up nearer to the anchor.

Samplers are drawn from on the CPU, so that one seed means the same triplets on every device.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from .._checks import check_edge_index, check_edge_weight, check_positive_int


class Triplets(NamedTuple):
    """M triplets of node indices."""

    anchor: Tensor  # [M] int64
    positive: Tensor  # [M] int64, alike: a neighbour, or a node of the anchor's class
    negative: Tensor  # [M] int64, unlike: no neighbour, or a node of another class

    def to(self, device: torch.device | str) -> "Triplets":
        """Return the same triplets on another device."""
        return Triplets(*(index.to(device) for index in self))


class TripletSampler(Protocol):
    """What `fit` asks of a sampler: all randomness comes from the generator it is handed."""

    def sample(self, num_triplets: int, generator: torch.Generator | None = None) -> Triplets:
        """Draw `num_triplets` triplets."""


class GraphTriplets:
    r"""Triplets from a graph alone: the positive is a neighbour, the negative is not.

    The anchor is uniform over the nodes that have both a neighbour and a non-neighbour, the
    positive a neighbour :math:`j` of the anchor :math:`i` with probability :math:`w_{ij} /
    \sum_k w_{ik}`, the negative uniform over all nodes but the anchor and its neighbours. Both
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
        >>> triplets.positive  # the ends of the path know node 1 only
        tensor([1, 1, 1, 1])
        >>> (triplets.anchor + triplets.negative).tolist()  # and not each other
        [2, 2, 2, 2]
    """

    def __init__(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
        check_positive_int("num_nodes", num_nodes)
        check_edge_index(edge_index, num_nodes)
        num_edges = edge_index.size(1)
        if edge_weight is None:
            edge_weight = torch.ones(num_edges, device=edge_index.device)
        check_edge_weight(edge_weight, num_edges)

        edge_index = edge_index.detach().cpu().long()
        edge_weight = edge_weight.detach().cpu().double()
        no_loop = edge_index[0] != edge_index[1]
        edge_index, edge_weight = edge_index[:, no_loop], edge_weight[no_loop]
        self.num_nodes = num_nodes
        self._prepare_positives(edge_index, edge_weight)
        self._prepare_negatives(edge_index)
        self._anchors = self._find_anchors()

    def _prepare_positives(self, edge_index: Tensor, edge_weight: Tensor) -> None:
        """Sort the edges by row and stack the rows' distribution functions into one."""
        kept = edge_weight > 0
        order = torch.argsort(edge_index[0, kept], stable=True)
        row, weight = edge_index[0, kept][order], edge_weight[kept][order]
        self._neighbour = edge_index[1, kept][order]
        self._row_start = _row_starts(row, self.num_nodes)
        # Each row is scaled to mass one first; otherwise a row of tiny weights would vanish
        # in the running sum of all the others.
        row_mass = torch.zeros(self.num_nodes, dtype=torch.float64).index_add_(0, row, weight)
        self._cumulative = torch.cumsum(weight / row_mass[row], dim=0)

    def _prepare_negatives(self, edge_index: Tensor) -> None:
        """Prepare the search for the r-th node that a row does not exclude.

        Let e_0 < e_1 < ... be the nodes that row i excludes: i and its neighbours. Before e_k lie
        e_k - k nodes that are not excluded, so the r-th of those (from zero) is r + #{k: e_k - k
        <= r}. As e_k - k never decreases along a row, i N + e_k - k is sorted over all rows, and
        one search counts.
        """
        node = torch.arange(self.num_nodes)
        keys = torch.cat(
            [edge_index[0] * self.num_nodes + edge_index[1], node * self.num_nodes + node]
        )
        keys = torch.unique(keys)  # sorted; duplicate edges merged
        row = keys // self.num_nodes
        self._excluded_start = _row_starts(row, self.num_nodes)
        rank = torch.arange(keys.numel()) - self._excluded_start[row]
        self._free_before = keys - rank
        self._num_free = self.num_nodes - self._excluded_start.diff()

    def _find_anchors(self) -> Tensor:
        has_neighbour = self._row_start.diff() > 0
        if not bool(has_neighbour.any()):
            raise ValueError(
                "Expected a graph with at least one edge of positive weight between two different "
                f"nodes, since a positive is a neighbour (got {self.num_nodes} nodes, none with "
                "a neighbour)."
            )
        anchors = torch.nonzero(has_neighbour & (self._num_free > 0)).flatten()
        if anchors.numel() == 0:
            raise ValueError(
                "Expected some node that has a neighbour to have a non-neighbour too, since a "
                "negative is a non-neighbour (got a graph in which each is adjacent to all "
                f"{self.num_nodes - 1} others). Use fewer neighbours k, or sampler='labels'."
            )
        return anchors

    def sample(self, num_triplets: int, generator: torch.Generator | None = None) -> Triplets:
        """Draw triplets independently of each other, with replacement.

        Args:
            num_triplets: Number of triplets M.
            generator: Source of the randomness, on the CPU; torch's own if omitted.

        Returns:
            M triplets, on the CPU.
        """
        check_positive_int("num_triplets", num_triplets)
        anchor = self._anchors[_below(self._anchors.numel(), num_triplets, generator)]
        return Triplets(
            anchor, self._draw_positive(anchor, generator), self._draw_negative(anchor, generator)
        )

    def _draw_positive(self, anchor: Tensor, generator: torch.Generator | None) -> Tensor:
        first, last = self._row_start[anchor], self._row_start[anchor + 1] - 1
        mass_before = torch.where(first > 0, self._cumulative[first - 1], 0.0)
        u = torch.rand(anchor.numel(), dtype=torch.float64, generator=generator)
        target = mass_before + u * (self._cumulative[last] - mass_before)
        edge = torch.searchsorted(self._cumulative, target, right=True)
        # Rounding may carry the target past its row.
        return self._neighbour[edge.clamp(min=first, max=last)]

    def _draw_negative(self, anchor: Tensor, generator: torch.Generator | None) -> Tensor:
        r = _below(self._num_free[anchor], anchor.numel(), generator)
        end = torch.searchsorted(self._free_before, anchor * self.num_nodes + r, right=True)
        return r + (end - self._excluded_start[anchor])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_nodes={self.num_nodes}, "
            f"num_edges={self._neighbour.numel()}, num_anchors={self._anchors.numel()})"
        )


class LabelTriplets:
    """Triplets from labels, few or many: the positive shares the anchor's class.

    The anchor is uniform over the labelled nodes whose class has at least two of them, the
    positive uniform over the other labelled nodes of its class, the negative uniform over the
    labelled nodes of all other classes. Draws are exact, without rejection.

    Args:
        y: Class of each node; a negative entry means that the label is unknown. Shape [N].
        mask: Nodes whose label may be used; all if omitted. Boolean, shape [N].

    Raises:
        TypeError: If `y` is no integer tensor or `mask` no boolean one.
        ValueError: If shapes disagree, if the labelled nodes are of fewer than two classes, or
            if no class has two labelled nodes.

    Example:
        >>> y = torch.tensor([0, 0, 1, -1])
        >>> triplets = LabelTriplets(y).sample(3)
        >>> triplets.negative  # node 2 is alone in its class, node 3 unlabelled
        tensor([2, 2, 2])
    """

    def __init__(self, y: Tensor, mask: Tensor | None = None) -> None:
        check_known(y, mask)
        y = y.detach().cpu().long()
        usable = y >= 0 if mask is None else (y >= 0) & mask.detach().cpu()
        labelled = torch.nonzero(usable).flatten()
        order = torch.argsort(y[labelled], stable=True)
        self._node = labelled[order]  # labelled nodes, class by class
        _, class_of, counts = torch.unique_consecutive(
            y[self._node], return_inverse=True, return_counts=True
        )
        self._count = counts[class_of]
        self._start = (counts.cumsum(0) - counts)[class_of]
        self._anchors = torch.nonzero(self._count > 1).flatten()  # positions in _node

        if counts.numel() < 2:
            raise ValueError(
                "Expected labelled nodes of at least two classes, since a negative is a node of "
                f"another class (got {labelled.numel()} labelled nodes of {counts.numel()} "
                "classes)."
            )
        if self._anchors.numel() == 0:
            raise ValueError(
                "Expected a class with at least two labelled nodes, since a positive is another "
                f"node of the anchor's class (got {counts.numel()} classes with one node each)."
            )

    def sample(self, num_triplets: int, generator: torch.Generator | None = None) -> Triplets:
        """Draw triplets independently of each other, with replacement.

        Args:
            num_triplets: Number of triplets M.
            generator: Source of the randomness, on the CPU; torch's own if omitted.

        Returns:
            M triplets, on the CPU.
        """
        check_positive_int("num_triplets", num_triplets)
        at = self._anchors[_below(self._anchors.numel(), num_triplets, generator)]
        start, count = self._start[at], self._count[at]
        # Uniform over the class without the anchor: skip over it; likewise over the class.
        same = start + _below(count - 1, num_triplets, generator)
        same = same + (same >= at)
        other = _below(self._node.numel() - count, num_triplets, generator)
        other = torch.where(other >= start, other + count, other)
        return Triplets(self._node[at], self._node[same], self._node[other])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_labelled={self._node.numel()}, "
            f"num_anchors={self._anchors.numel()})"
        )


def _below(bound: int | Tensor, size: int, generator: torch.Generator | None) -> Tensor:
    """Draw `size` integers uniformly from [0, bound), each with a bound of its own if given [size].

    In float64, u < 1 implies that u * bound rounds to less than bound, so no clamp is needed.
    """
    u = torch.rand(size, dtype=torch.float64, generator=generator)
    return (u * bound).long()


def _row_starts(row: Tensor, num_rows: int) -> Tensor:
    """Return where each row begins in a sorted list of row numbers, and its end: [num_rows + 1]."""
    return torch.searchsorted(row, torch.arange(num_rows + 1))


def check_known(y: Tensor, mask: Tensor | None) -> None:
    """Raise unless `y` holds integer classes [N], and `mask`, if given, says which may be used."""
    if not isinstance(y, Tensor) or y.is_floating_point() or y.is_complex():
        got = y.dtype if isinstance(y, Tensor) else type(y).__name__
        raise TypeError(f"Expected 'y' to be an integer tensor of classes (got {got}).")
    if y.dim() != 1:
        raise ValueError(f"Expected 'y' to have shape [N] (got {list(y.shape)}).")
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"Expected 'mask' to be a boolean tensor (got {got}).")
    if mask.shape != y.shape:
        raise ValueError(
            f"Expected 'mask' to have shape {list(y.shape)}, as 'y' has (got {list(mask.shape)})."
        )
