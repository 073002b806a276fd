"""Triplets (anchor, positive, negative) and their loss; the positive is to lie nearer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

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
