"""Many small plans at once: dense, padded, and moved by batched products.

A proximal step maximises <C T D, T'> - eps KL(T' | T). Since scalings of rows and columns come and
go with the potentials, T need not be kept: S, the sum of the gradients over their temperatures, is
all that a step adds to, and T = exp(f_i + S_ij + g_j). One exponential and two products a step.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

STEPS = 20
COOLING = 10.0  # the first temperature over the last one

LOG2_E = 1 / math.log(2)

_LEAST = 1e-30  # of sums that are divided by
_NEVER = -1e30  # log of the mass of what pads a pair; finite, so that no difference is NaN
_WEAK = 1e-3  # a gradient that is smaller, relative to the largest cost of either side
_SETTLED = 1e-3  # a pair leaves when less of its mass than this moves
_LOOK_EVERY = 5  # steps between looks at who has settled


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
    """Proximal steps from plans, at temperatures that fall by a constant factor.

    Args:
        pairs: what is matched.
        start: [B, n, m] log2 T, up to scalings of rows and columns, finite.
        steps: at most how many; a pair whose plan moves no more takes no further.
        epsilon: the last temperature, in units of the largest entry of the first gradient.

    Returns:
        [B, n, m] plans T. Columns have their masses, rows nearly.
    """
    (c, a), (d, b) = centred(pairs.c, pairs.p), centred(pairs.d, pairs.q)
    p, q = pairs.p[..., None], pairs.q[:, None]
    linear = a[..., None] * b[:, None]
    state = _State(c, d, linear, p, q, start.clone(), _potential(p), _potential(q))
    plan = _scaled(state)
    # Where all points are alike to the start, its gradient is rounding, and no measure.
    unit = _largest(_gradient(state, plan))
    unit = unit.maximum(_WEAK * _largest(c) * _largest(d)).clamp(min=torch.finfo(unit.dtype).tiny)
    state = state._replace(c=c / unit, linear=state.linear / unit)
    out, index = torch.empty_like(plan), torch.arange(plan.size(0), device=plan.device)
    for step in range(steps):
        share = step / max(1, steps - 1)
        now = epsilon * COOLING ** (1 - share)
        state.score.add_(_gradient(state, plan), alpha=LOG2_E / now)
        before, plan = plan, _scaled(state)
        if (step + 1) % _LOOK_EVERY == 0 and step + 1 < steps:
            moving = (plan - before).abs_().sum((1, 2)) > _SETTLED
            if not bool(moving.all()):
                out[index] = plan
                state = _State(*(each[moving] for each in state))
                plan, index = plan[moving], index[moving]
    out[index] = plan
    return out


class _State(NamedTuple):
    """What steps need; the last three are written to."""

    c: Tensor  # [B, n, n] centred, over the largest entry of the first gradient
    d: Tensor  # [B, m, m] centred
    linear: Tensor  # [B, n, m] the part of the gradient that does not change, over the same
    p: Tensor  # [B, n, 1]
    q: Tensor  # [B, 1, m]
    score: Tensor  # [B, n, m] log2 T but for the potentials
    f: Tensor  # [B, n, 1] potentials of the rows, in bits
    g: Tensor  # [B, 1, m] potentials of the columns


def _largest(x: Tensor) -> Tensor:
    return x.abs().flatten(1).amax(1)[:, None, None]


def _potential(mass: Tensor) -> Tensor:
    return torch.where(mass > 0, 0.0, _NEVER).to(mass)


def _gradient(state: _State, plan: Tensor) -> Tensor:
    return torch.baddbmm(state.linear, torch.bmm(state.c, plan), state.d)


def _scaled(state: _State) -> Tensor:
    """One Sinkhorn iteration from the potentials of the last step, which are brought up to date.

    A row or column that is out of the range of the type, which takes a step of a hundred bits, gets
    no mass in this step, and a potential with which it is back in the next.
    """
    kernel = state.score + state.f
    kernel.add_(state.g)
    # The largest of a pair, not of every row, whose short reductions take longer than all the rest.
    kernel.sub_(kernel.flatten(1).amax(1)[:, None, None]).exp2_()
    u = state.p / kernel.sum(2, keepdim=True).clamp_(min=_LEAST)
    kernel.mul_(u)
    v = state.q / kernel.sum(1, keepdim=True).clamp_(min=_LEAST)
    state.f.add_(u.clamp_(min=_LEAST).log2_())
    kernel.mul_(v)
    state.g.add_(v.clamp_(min=_LEAST).log2_())
    return kernel
