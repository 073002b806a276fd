"""Triplets (anchor, positive, negative) and their loss.

The loss draws the positive nearer than the negative. Samplers draw on the CPU, so that one seed
gives the same triplets on every device.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._checks import check_dense, check_float, check_positive
from .._precision import unit_rows
from .seeds import Purpose, derive_generator


class Triplets(NamedTuple):
    """Hold M triplets of node indices."""

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


@dataclass(frozen=True)
class TripletBatches:
    """Draws the triplets of an epoch."""

    sampler: TripletSampler
    size: int
    seed: int
    device: torch.device

    def draw(self, purpose: Purpose, epoch: int = 0) -> Triplets:
        """Draw triplets that follow from the seed, the purpose and the epoch."""
        generator = derive_generator(self.seed, purpose, epoch)
        return self.sampler.sample(self.size, generator).to(self.device)


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
