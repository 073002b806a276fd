"""Triplets (anchor, positive, negative), their loss, and how they are drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._checks import (
    check_choice,
    check_edge_index,
    check_edge_weight,
    check_labels,
    check_mask,
    check_positive_int,
)
from .._precision import unit_rows
from ..nn import AnisotropicDiffusion
from .seeds import Purpose, derive_generator


class Triplets(NamedTuple):
    """Holds M triplets of nodes: an anchor, a similar node, a different one."""

    anchor: Tensor  #: [M] int64
    positive: Tensor  #: [M] int64, alike: a neighbour, or a node of the anchor's class
    negative: Tensor  #: [M] int64, unlike: no neighbour, or a node of another class

    def to(self, device: torch.device | str) -> "Triplets":
        """Return the same triplets on another device."""
        return Triplets(*(index.to(device) for index in self))


class TripletSampler(Protocol):
    """An object that draws triplets, with all randomness from the generator."""

    def sample(self, num_triplets: int, generator: torch.Generator | None = None) -> Triplets:
        """Draw `num_triplets` triplets."""


# A function of features z [N, C] and triplets to a scalar.
Loss = Callable[[Tensor, Triplets], Tensor]


@dataclass(frozen=True)
class TripletLoss:
    r"""Triplet margin loss on L2-normalised features.

    .. math::
        \frac{1}{M} \sum_{(a, p, n)} \max(0, \|\hat z_a - \hat z_p\| - \|\hat z_a - \hat z_n\|
        + m), \quad \hat z = z / \|z\|

    Source: Schroff, Kalenichenko, Philbin, "FaceNet", CVPR 2015, eq. (2), there with squared
    distances.
    """

    margin: float = 0.5  # m, a distance on the unit sphere

    def __call__(self, z: Tensor, triplets: Triplets) -> Tensor:
        """Return the mean loss over the triplets, of features z [N, C]."""
        if not isinstance(z, Tensor) or z.dim() != 2:
            raise ValueError(
                "Expected 'model' to return features [N, C] (got "
                f"{list(z.shape) if isinstance(z, Tensor) else type(z).__name__})."
            )
        # As a lookup, not z[index]: the gradient of indexing adds with atomics, in an order that
        # differs from run to run; that of a lookup does not.
        anchor, positive, negative = F.embedding(torch.stack(triplets), unit_rows(z))
        return F.triplet_margin_loss(anchor, positive, negative, margin=self.margin)


def read_loss(loss: str | Loss, margin: float, device: torch.device) -> Loss:
    """Return the loss that the argument names, or the function that it is, on a device."""
    if isinstance(loss, str):
        return TripletLoss(margin)
    if not callable(loss):
        raise TypeError(f"Expected 'loss' to be 'triplet' or f(z, triplets) (got {loss!r}).")
    if isinstance(loss, nn.Module) and any(each.requires_grad for each in loss.parameters()):
        raise ValueError(
            f"Expected 'loss' to have no trainable parameters (got {loss}), since only those of "
            "'model' are trained."
        )
    return loss.to(device) if isinstance(loss, nn.Module) else loss


@dataclass(frozen=True)
class TripletTask:
    """Draws the triplets of an epoch, and compares features on them."""

    sampler: TripletSampler
    criterion: Loss
    size: int
    seed: int
    device: torch.device

    def draw(self, purpose: Purpose, epoch: int = 0) -> Triplets:
        """Draw triplets that follow from the seed, the purpose and the epoch."""
        generator = derive_generator(self.seed, purpose, epoch)
        return self.sampler.sample(self.size, generator).to(self.device)

    def loss(self, z: Tensor, triplets: Triplets) -> Tensor:
        """Call the criterion; one that takes triplets for a tensor is told of `data.y`."""
        try:
            return self.criterion(z, triplets)
        except (AttributeError, TypeError) as error:
            if "Triplets" not in str(error):
                raise
            raise TypeError(
                f"Expected 'loss' to be a function of (z, triplets) (got one that says: {error}). "
                "To compare with data.y, take loss='signal', the mean squared error."
            ) from error


class GraphTriplets:
    r"""Draws triplets from a graph alone: the positive is a neighbour, the negative is not.

    The anchor is uniform over the nodes that have both a neighbour and a non-neighbour, the
    positive a neighbour :math:`j` of the anchor :math:`i` with probability :math:`w_{ij} /
    \sum_k w_{ik}`, the negative uniform over all nodes except the anchor and its neighbours. Both
    draws are exact (no rejection) and cost one binary search a triplet.

    Self-loops are ignored. An edge of weight zero gives neither positives nor negatives.

    Args:
        edge_index: [2, E] edges in both directions.
        edge_weight: [E] weights >= 0, or None for ones.
        num_nodes: Number of nodes N, isolated ones included.

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
        if self._anchors.numel() == 0:
            raise ValueError(
                "Expected some node to have a neighbour, as a positive, and a non-neighbour, as a "
                f"negative (got {self.num_nodes} nodes, all without the one or without the other)."
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
        ones = torch.ones(row.numel(), dtype=torch.float64)
        given = ones if weight is None else weight.detach().cpu().double()
        no_loop = first + row != col
        row, col, given = row[no_loop], col[no_loop], given[no_loop]
        # Neighbours are distinct and sorted; a pair that occurs twice has the sum of the weights.
        key, slot = torch.unique(row * num_nodes + col, return_inverse=True)
        total = torch.zeros(key.numel(), dtype=torch.float64).index_add_(0, slot, given)
        # Positives: the distribution functions of all rows, one after the other. Each row is scaled
        # to mass one first; otherwise a row of tiny weights would vanish in the running sum.
        kept = total > 0
        row, total = key[kept] // num_nodes, total[kept]
        self._neighbour = key[kept] % num_nodes
        self._row_start = torch.searchsorted(row, torch.arange(num_rows + 1))
        row_mass = torch.zeros(num_rows, dtype=torch.float64).index_add_(0, row, total)
        self._cumulative = torch.cumsum(total / row_mass[row], dim=0)
        # Negatives: let e_0 < e_1 < ... be the nodes that row i excludes, i and its neighbours.
        # Before e_k lie e_k - k nodes that are not excluded, so the r-th of those (from zero) is
        # r + #{k: e_k - k <= r}. As e_k - k never decreases along a row, i N + e_k - k is sorted
        # over all rows, and one search counts.
        diagonal = torch.arange(num_rows) * (num_nodes + 1) + first
        excluded = torch.cat([key, diagonal]).sort().values
        row = excluded // num_nodes
        self._excluded_start = torch.searchsorted(row, torch.arange(num_rows + 1))
        self._free_before = excluded - (torch.arange(excluded.numel()) - self._excluded_start[row])
        self._num_free = num_nodes - self._excluded_start.diff()
        has_neighbour = self._row_start.diff() > 0
        self._anchors = torch.nonzero(has_neighbour & (self._num_free > 0)).flatten()
        # Anchors of all processes are drawn; those of these rows begin after so many others.
        self._num_anchors, self._before = self._anchors.numel(), 0

    def sample(self, num_triplets: int, generator: torch.Generator | None = None) -> Triplets:
        """Draw triplets independently of each other, with replacement; they lie on the CPU."""
        check_positive_int("num_triplets", num_triplets)
        u = torch.rand(3, num_triplets, dtype=torch.float64, generator=generator)
        at = (u[0] * self._num_anchors).long() - self._before
        is_own = (at >= 0) & (at < self._anchors.numel())
        anchor = self._anchors[at[is_own]]
        u_positive, u_negative = u[1:, is_own]
        first, last = self._row_start[anchor], self._row_start[anchor + 1] - 1
        mass_before = torch.where(first > 0, self._cumulative[first - 1], 0.0)
        target = mass_before + u_positive * (self._cumulative[last] - mass_before)
        edge = torch.searchsorted(self._cumulative, target, right=True)
        # Rounding may carry the target past its row.
        positive = self._neighbour[edge.clamp(min=first, max=last)]
        r = (u_negative * self._num_free[anchor]).long()
        end = torch.searchsorted(self._free_before, anchor * self.num_nodes + r, right=True)
        return Triplets(self._first + anchor, positive, r + (end - self._excluded_start[anchor]))


class LabelTriplets:
    """Draws triplets from labels, few or many: the positive shares the anchor's class.

    The anchor is uniform over the labelled nodes whose class has at least two of them, the
    positive uniform over the other labelled nodes of its class, the negative uniform over the
    labelled nodes of all other classes. Draws are exact, without rejection. Labels y [N] are
    negative where unknown.
    """

    def __init__(self, y: Tensor) -> None:
        y = y.detach().cpu().long()
        labelled = torch.nonzero(y >= 0).flatten()
        order = torch.argsort(y[labelled], stable=True)
        self._node = labelled[order]  # labelled nodes, class by class
        _, class_of, counts = torch.unique_consecutive(
            y[self._node], return_inverse=True, return_counts=True
        )
        self._count = counts[class_of]
        self._start = (counts.cumsum(0) - counts)[class_of]
        self._anchors = torch.nonzero(self._count > 1).flatten()  # positions in _node

        if counts.numel() < 2 or self._anchors.numel() == 0:
            raise ValueError(
                "Expected labelled nodes of two classes or more, one of them with two nodes (got "
                f"{labelled.numel()} labelled nodes of {counts.numel()} classes)."
            )

    def sample(self, num_triplets: int, generator: torch.Generator | None = None) -> Triplets:
        """Draw triplets independently of each other, with replacement; they lie on the CPU."""
        at = self._anchors[_draw_below(self._anchors.numel(), num_triplets, generator)]
        start, count = self._start[at], self._count[at]
        # Uniform over the class without the anchor: skip over it; likewise over the class.
        same = start + _draw_below(count - 1, num_triplets, generator)
        same = same + (same >= at)
        other = _draw_below(self._node.numel() - count, num_triplets, generator)
        other = torch.where(other >= start, other + count, other)
        return Triplets(self._node[at], self._node[same], self._node[other])


def read_sampler(
    sampler: str | TripletSampler,
    num_nodes: int,
    edge_index: Tensor,
    edge_weight: Tensor | None,
    y: Tensor | None,
    train_mask: Tensor | None,
) -> TripletSampler:
    """Return the sampler that the argument names, or the object that it is."""
    if not isinstance(sampler, str):
        if not callable(getattr(sampler, "sample", None)):
            raise TypeError(
                "Expected 'sampler' to be 'graph', 'labels' or an object with "
                f"sample(num_triplets, generator) (got {sampler!r})."
            )
        return sampler
    check_choice("sampler", sampler, ("graph", "labels"))
    if sampler == "graph":
        return GraphTriplets(edge_index, edge_weight, num_nodes)
    if y is None:
        raise ValueError("Expected 'data' to have labels 'y' for sampler='labels' (got none).")
    check_labels("data.y", y, num_nodes)
    if train_mask is None:
        return LabelTriplets(y)
    check_mask("data.train_mask", train_mask, tuple(y.shape), "nodes")
    return LabelTriplets(torch.where(train_mask.to(y.device), y.long(), -1))


def sketch(x: Tensor, model: nn.Module, sketch_dim: int, seed: int) -> Tensor:
    """Project the channels of x at random to fewer, which keeps distances in the mean."""
    check_positive_int("sketch_dim", sketch_dim)
    num_channels = x.size(1)
    if sketch_dim >= num_channels:
        raise ValueError(
            f"Expected 'sketch_dim' to be less than the {num_channels} channels of 'data.x' (got "
            f"{sketch_dim})."
        )
    if not (isinstance(model, AnisotropicDiffusion) and model.sketchable):
        raise ValueError(
            "Expected 'model' to be an AnisotropicDiffusion that treats all channels alike, for "
            f"'sketch_dim' (got {model}): only a diffusion commutes with a projection of channels."
        )
    generator = derive_generator(seed, Purpose.SKETCH)
    size = num_channels, sketch_dim
    projection = torch.randn(size, generator=generator, dtype=torch.float32) / sketch_dim**0.5
    return x @ projection.to(x)


def _draw_below(bound: int | Tensor, size: int, generator: torch.Generator | None) -> Tensor:
    """Draw `size` integers uniformly from [0, bound), each with a bound of its own if given [size].

    In float64, u < 1 implies that u * bound rounds to less than bound, so no clamp is needed.
    """
    u = torch.rand(size, dtype=torch.float64, generator=generator)
    return (u * bound).long()
