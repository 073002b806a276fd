"""Triplets (anchor, positive, negative): the positive should end up nearer to the anchor.

Samplers are drawn from on the CPU, so that one seed means the same triplets on every device.
"""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from .._checks import check_instance, check_positive_int


class Triplets(NamedTuple):
    """M triplets of node indices."""

    anchor: Tensor  #: [M] int64
    positive: Tensor  #: [M] int64, alike: a neighbour, or a node of the anchor's class
    negative: Tensor  #: [M] int64, unlike: no neighbour, or a node of another class

    def to(self, device: torch.device | str) -> "Triplets":
        """Return the same triplets on another device."""
        return Triplets(*(index.to(device) for index in self))


def check_triplets(name: str, triplets: Any) -> None:
    """Raise a TypeError unless `triplets` are three tensors of integers; no value is looked at."""
    parts = triplets if isinstance(triplets, tuple) else ()
    if len(parts) != 3 or not all(isinstance(each, Tensor) for each in parts):
        raise TypeError(
            f"Expected '{name}' to be Triplets, three tensors of node indices (got "
            f"{type(triplets).__name__})."
        )


def check_draw(num_triplets: Any, generator: Any) -> None:
    """Raise unless these are the arguments of `TripletSampler.sample`."""
    check_positive_int("num_triplets", num_triplets)
    if generator is not None:
        check_instance("generator", generator, torch.Generator, "a torch.Generator or None")


class TripletSampler(Protocol):
    """What `fit_triplets` asks of a sampler, whose randomness comes from the generator alone."""

    def sample(self, num_triplets: int, generator: torch.Generator | None = None) -> Triplets:
        """Draw `num_triplets` triplets."""


def draw_below(bound: int | Tensor, size: int, generator: torch.Generator | None) -> Tensor:
    """Draw `size` integers uniformly from [0, bound), each with a bound of its own if given [size].

    In float64, u < 1 implies that u * bound rounds to less than bound, so no clamp is needed.
    """
    u = torch.rand(size, dtype=torch.float64, generator=generator)
    return (u * bound).long()
