"""Starts of many small plans: log2 of plans, up to scalings of rows and columns."""

import torch
from torch import Tensor

from ..._random import seeded
from ..sinkhorn.proximal import LOG2_E
from .proximal import Pairs

STARTS = ("costs", "zero", "random")

LEVELS = 16  # quantiles of a point's costs
SOFTNESS = 0.3  # temperature, as a share of the mean squared distance of profiles

_ALIKE = 1e-30  # mean squared distance of profiles, where the largest cost is about one
_RANK = 8  # of a random start
_SPREAD = 1.0  # its standard deviation, in bits
_LITTLE = 0.03  # of a random start, beside the independent plan


def start(pairs: Pairs, name: str, seed: int) -> Tensor:
    """The start of a name of :data:`STARTS`.

    The independent plan is a saddle where points are alike, such as those of a ring, and proximal
    steps do not leave it: a little noise does, and the steps make a whole rotation of it.
    """
    if name == "costs":
        return profile_start(pairs)
    return random_start(pairs, seed) * (_LITTLE if name == "zero" else 1.0)


def profile_start(pairs: Pairs) -> Tensor:
    """Points are alike whose costs to the others are distributed alike.

    Source: F. Mémoli, "Gromov-Wasserstein distances and the metric approach to object matching",
    2011, section 6: what the third lower bound compares.
    """
    gap = torch.cdist(_quantiles(pairs.c, pairs.p), _quantiles(pairs.d, pairs.q)).square()
    mean = pairs.p[:, None] @ gap @ pairs.q[..., None]
    # Points that are all alike are as well off anywhere.
    sharpness = torch.where(mean > _ALIKE, LOG2_E / (SOFTNESS * mean.clamp(min=_ALIKE)), 0)
    return gap * -sharpness


def _quantiles(cost: Tensor, mass: Tensor) -> Tensor:
    """[B, n, LEVELS] quantiles of the costs of every point, weighted by mass."""
    weight = mass[:, None].expand_as(cost).contiguous()
    value, order = torch.where(weight > 0, cost, torch.inf).sort(2)
    below = weight.gather(2, order).cumsum(2)
    level = (torch.arange(LEVELS, dtype=cost.dtype, device=cost.device) + 0.5) / LEVELS
    level = level.expand(*cost.shape[:2], -1).contiguous()
    # Rounding may leave the sum of the masses below one, and infinity is where there is no mass.
    last = (mass > 0).sum(1)[:, None, None] - 1
    return value.gather(2, torch.searchsorted(below, level).minimum(last))


def random_start(pairs: Pairs, seed: int) -> Tensor:
    """Noise that belongs to the ranks of points by mean cost, not to their numbers.

    So renumbered graphs get renumbered plans, and a pair's plan does not depend on the other pairs.
    """
    sides = []
    for cost, mass, own in ((pairs.c, pairs.p, seed), (pairs.d, pairs.q, seed + (1 << 32))):
        # Numbers of `rand`, unlike those of `randn`, are the same whatever their count.
        count = mass.size(1) * _RANK
        numbers = torch.rand(count, generator=seeded(own), dtype=torch.float64)
        vectors = ((numbers.view(-1, _RANK) - 0.5) * (12 * _SPREAD / _RANK**0.5) ** 0.5).to(cost)
        sides.append(vectors[_ranks(cost, mass)])
    return sides[0] @ sides[1].mT


def _ranks(cost: Tensor, mass: Tensor) -> Tensor:
    mean = torch.bmm(cost, mass[..., None])[..., 0]
    return torch.where(mass > 0, mean, torch.inf).argsort(stable=True, dim=1).argsort(1)
