"""Triplets (anchor, positive, negative), their loss, and those that labels give.

The loss draws the positive nearer than the negative. Samplers draw on the CPU, so that one seed
gives the same triplets on every device.
"""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._checks import (
    check_dense,
    check_float,
    check_instance,
    check_labels,
    check_positive,
    check_positive_int,
)
from .._groups import group_starts
from .._precision import unit_rows
from .labels import check_mask


class Triplets(NamedTuple):
    """M triplets of node indices."""

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


class Loss(Protocol):
    """A function of features and triplets to a scalar."""

    def __call__(self, z: Tensor, triplets: Triplets) -> Tensor:
        """Return a scalar for the features z [N, C]."""


class TripletLoss(nn.Module):
    r"""Triplet margin loss on L2-normalised features.

    .. math::
        \frac{1}{M} \sum_{(a, p, n)} \max(0, \|\hat z_a - \hat z_p\| - \|\hat z_a - \hat z_n\|
        + m), \quad \hat z = z / \|z\|

    It is zero once every negative is farther from its anchor than the positive by the margin
    `m`. On the unit sphere distances lie in [0, 2].

    Args:
        margin: The margin `m`, a distance on the unit sphere.

    Shapes:
        - **input:** features z [N, C], triplets of M node indices in [0, N)
        - **output:** a scalar

    Source: Schroff, Kalenichenko, Philbin, "FaceNet", CVPR 2015, eq. (2), there with squared
    distances.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 5.0]])
        >>> triplet = Triplets(*torch.tensor([[0], [1], [2]]))
        >>> TripletLoss(margin=0.5)(z, triplet)  # the positive at 0, the negative at sqrt(2)
        tensor(0.)
    """

    def __init__(self, margin: float = 0.5) -> None:
        super().__init__()
        check_positive("margin", margin)
        self.margin = margin

    def forward(self, z: Tensor, triplets: Triplets) -> Tensor:
        """Return the mean loss over the triplets."""
        check_float("z", z)
        check_dense("z", z)
        if z.dim() != 2:
            raise ValueError(f"Expected 'z' to have shape [N, C] (got {list(z.shape)}).")
        parts = triplets if isinstance(triplets, tuple) else ()
        if len(parts) != 3 or not all(isinstance(each, Tensor) for each in parts):
            raise TypeError(
                "Expected 'triplets' to be Triplets, three tensors of node indices (got "
                f"{type(triplets).__name__})."
            )
        z = unit_rows(z)
        # As a lookup, not z[index]: the gradient of indexing adds with atomics, in an order that
        # differs from run to run; that of a lookup does not.
        anchor, positive, negative = F.embedding(torch.stack(triplets), z)
        return F.triplet_margin_loss(anchor, positive, negative, margin=self.margin)

    def extra_repr(self) -> str:
        """Return what `repr` shows between the brackets."""
        return f"margin={self.margin}"


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
        check_labels("y", y)
        if mask is not None:
            check_mask("mask", mask, tuple(y.shape), "nodes")
        y = y.detach().cpu().long()
        usable = y >= 0 if mask is None else (y >= 0) & mask.detach().cpu()
        labelled = torch.nonzero(usable).flatten()
        order = torch.argsort(y[labelled], stable=True)
        self._node = labelled[order]  # labelled nodes, class by class
        _, class_of, counts = torch.unique_consecutive(
            y[self._node], return_inverse=True, return_counts=True
        )
        self._count = counts[class_of]
        self._start = group_starts(class_of, counts.numel())[class_of]
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
        check_draw(num_triplets, generator)
        at = self._anchors[_draw_below(self._anchors.numel(), num_triplets, generator)]
        start, count = self._start[at], self._count[at]
        # Uniform over the class without the anchor: skip over it; likewise over the class.
        same = start + _draw_below(count - 1, num_triplets, generator)
        same = same + (same >= at)
        other = _draw_below(self._node.numel() - count, num_triplets, generator)
        other = torch.where(other >= start, other + count, other)
        return Triplets(self._node[at], self._node[same], self._node[other])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_labelled={self._node.numel()}, "
            f"num_anchors={self._anchors.numel()})"
        )


def check_draw(num_triplets: Any, generator: Any) -> None:
    """Raise unless these are the arguments of `TripletSampler.sample`."""
    check_positive_int("num_triplets", num_triplets)
    if generator is not None:
        check_instance("generator", generator, torch.Generator, "a torch.Generator or None")


def _draw_below(bound: int | Tensor, size: int, generator: torch.Generator | None) -> Tensor:
    """Draw `size` integers uniformly from [0, bound), each with a bound of its own if given [size].

    In float64, u < 1 implies that u * bound rounds to less than bound, so no clamp is needed.
    """
    u = torch.rand(size, dtype=torch.float64, generator=generator)
    return (u * bound).long()
