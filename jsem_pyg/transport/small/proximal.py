"""Many small pairs: their costs in one shape, and proximal steps on all of them at once."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..sinkhorn.proximal import ProximalState, proximal_steps

STEPS = 20
COOLING = 10.0  # the first temperature over the last one

_WEAK = 1e-3  # a gradient that is smaller, relative to the largest cost of either side


class Pairs(NamedTuple):
    """Costs and masses of B pairs, padded to one shape."""

    c: Tensor  # [B, n, n] symmetric, zero in what pads it
    d: Tensor  # [B, m, m] likewise
    p: Tensor  # [B, n] of sum one, zero in what pads it
    q: Tensor  # [B, m] likewise

    def take(self, index: Tensor) -> "Pairs":
        """Some of the pairs."""
        return Pairs(*(each[index] for each in self))


def centred(cost: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
    """Costs without their weighted means of rows and columns, and those means [B, n], centred.

    <C T D, T> = <C' T D', T> + 2 a^T T b + a constant, with the means a and b; digits are kept that
    large means would take. Points without mass get zeros.
    """
    has_mass = (mass > 0).to(cost)
    mean = torch.bmm(cost, mass[..., None])
    total = torch.bmm(mass[:, None], mean)
    both = has_mass[..., None] * has_mass[:, None]
    return (cost - mean - mean.mT + total) * both, ((mean - total)[..., 0]) * has_mass


def anneal(pairs: Pairs, start: Tensor, steps: int, epsilon: float) -> Tensor:
    """Proximal steps at temperatures that fall by a constant factor to `epsilon`: plans [B, n, m].

    They start from log2 T [B, n, m], up to scalings of rows and columns; a pair whose plan moves no
    more takes no further ones. The unit of temperatures is the largest entry of the first gradient.
    Columns have their masses, rows nearly.
    """
    (c, a), (d, b) = centred(pairs.c, pairs.p), centred(pairs.d, pairs.q)
    linear = a[..., None] * b[:, None]
    state = ProximalState.begin(start, pairs.p, pairs.q)
    plan = state.scaled()
    # Where all points are alike to the start, its gradient is rounding, and no measure.
    unit = _largest(_Gradient(c, d, linear)(plan))
    unit = unit.maximum(_WEAK * _largest(c) * _largest(d)).clamp(min=torch.finfo(unit.dtype).tiny)
    cooling = (COOLING ** (1 - step / max(1, steps - 1)) for step in range(steps))
    gradient = _Gradient(c / unit, d, linear / unit)
    return proximal_steps(state, plan, gradient, (epsilon * each for each in cooling))[0]


class _Gradient(NamedTuple):
    """C T D of centred costs."""

    c: Tensor  # [B, n, n]
    d: Tensor  # [B, m, m]
    linear: Tensor  # [B, n, m] the part that does not change

    def __call__(self, plan: Tensor) -> Tensor:
        return torch.baddbmm(self.linear, torch.bmm(self.c, plan), self.d)

    def take(self, index: Tensor) -> "_Gradient":
        """The gradient for some of the pairs."""
        return _Gradient(*(each[index] for each in self))


def _largest(x: Tensor) -> Tensor:
    return x.abs().flatten(1).amax(1)[:, None, None]
