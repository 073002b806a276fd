"""Proximal points of Gromov-Wasserstein transport on tables: dense plans of one or many problems.

A step maximises <G(T), T'> - epsilon KL(T' | T), with the gradient G(T) = C T D of what is matched.
Scalings of rows and columns come and go with the potentials, so T need not be kept: S, the sum of
the gradients over their temperatures, is all that a step adds to, and T = 2^(f_i + S_ij + g_j). A
step takes one Sinkhorn iteration: one exponential of the table.

Source: Xu, Luo, Zha and Carin, "Gromov-Wasserstein learning for graph matching and node embedding",
ICML 2019; with one iteration a step, Xie, Wang, Wang and Zha, "A fast proximal point method for
computing exact Wasserstein distance", UAI 2020.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

LOG2_E = 1 / math.log(2)

_LEAST = 1e-30  # of sums that are divided by
_NEVER = -1e30  # log of the mass of what pads a problem; finite, so that no difference is NaN
_LOOK_EVERY = 5  # steps between looks at which have settled


class Gradient(Protocol):
    """C T D of B problems, over a unit of temperature."""

    def __call__(self, plan: Tensor) -> Tensor:
        """The gradient [B, n, m] at plans [B, n, m]."""

    def take(self, index: Tensor) -> "Gradient":
        """The gradient for some of the problems."""


@dataclass
class ProximalState:
    """State of B descents; steps write to score, f and g."""

    score: Tensor  # [B, n, m] log2 T without the potentials, finite
    f: Tensor  # [B, n, 1] potentials of the rows, in bits
    g: Tensor  # [B, 1, m] potentials of the columns
    p: Tensor  # [B, n, 1] masses of sum one, zero in what pads a problem
    q: Tensor  # [B, 1, m] likewise

    @classmethod
    def begin(cls, start: Tensor, p: Tensor, q: Tensor) -> "ProximalState":
        """Descents from log2 T [B, n, m], up to scalings, with masses [B, n] and [B, m]."""
        p, q = p[..., None], q[:, None]
        f, g = (torch.where(mass > 0, 0.0, _NEVER).to(mass) for mass in (p, q))
        return cls(start.clone(), f, g, p, q)

    def take(self, index: Tensor) -> "ProximalState":
        """Some of the descents."""
        fields = (self.score, self.f, self.g, self.p, self.q)
        return ProximalState(*(each[index] for each in fields))

    def scaled(self) -> Tensor:
        """The plans after one Sinkhorn iteration from the potentials, which are updated.

        Columns have their masses, rows nearly. A row or column that is out of the range of the
        type, which takes a step of a hundred bits, gets no mass in this step, and a potential with
        which it is back in the next.
        """
        kernel = self.score + self.f
        kernel.add_(self.g)
        # The largest of a problem, not of a row: short reductions take longer than all the rest.
        kernel.sub_(kernel.flatten(1).amax(1)[:, None, None]).exp2_()
        u = self.p / kernel.sum(2, keepdim=True).clamp_(min=_LEAST)
        kernel.mul_(u)
        v = self.q / kernel.sum(1, keepdim=True).clamp_(min=_LEAST)
        self.f.add_(u.clamp_(min=_LEAST).log2_())
        kernel.mul_(v)
        self.g.add_(v.clamp_(min=_LEAST).log2_())
        return kernel


def proximal_steps(
    state: ProximalState,
    plan: Tensor,
    gradient: Gradient,
    epsilons: Iterable[float],
    settled_at: float = 1e-3,
) -> tuple[Tensor, Tensor]:
    """Proximal steps, each at its temperature: the plans [B, n, m], and which of them settled [B].

    They begin at `state`, which is written to, and its plans. A plan that moves less than
    `settled_at` of its mass in a step has settled, and takes no further ones.
    """
    out, index = torch.empty_like(plan), torch.arange(plan.size(0), device=plan.device)
    settled = torch.zeros_like(index, dtype=torch.bool)
    for step, epsilon in enumerate(epsilons, 1):
        state.score.add_(gradient(plan), alpha=LOG2_E / epsilon)
        before, plan = plan, state.scaled()
        if step % _LOOK_EVERY:
            continue
        moving = (plan - before).abs_().sum((1, 2)) > settled_at
        if not bool(moving.all()):
            out[index] = plan
            settled[index] = ~moving
            if not bool(moving.any()):
                return out, settled
            state, gradient = state.take(moving), gradient.take(moving)
            plan, index = plan[moving], index[moving]
    out[index] = plan
    return out, settled
