r"""The value of a transport problem at its optimum, with the gradients of the optimum.

By the envelope theorem (Danskin), the derivative of a minimum is that of the objective at the
minimiser held fixed, plus what the constraints cost: with the Lagrangian

.. math::
    L(\mathbf{T}) = F(\mathbf{T}) + \langle \lambda, \mathbf{p} - \mathbf{T} 1 \rangle
    + \langle \mu, \mathbf{q} - \mathbf{T}^T 1 \rangle

the derivatives in coordinates and features are those of F, and those in p and q get the prices
lambda and mu of mass. L does not change to first order in T, so that its value is right to second
order in what a solver has left of the marginal error.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..costs.factor import Factor
from ..problem.objective import fused_cost, known_pull
from ..problem.relaxation import Relaxation
from ..sinkhorn.scores import FactoredScores, PlanSums, average, plan_sums, row_potentials


@dataclass(frozen=True, eq=False)
class Objective:
    """The objective, as a function of tensors that keep their history."""

    first: Factor
    second: Factor
    p: Tensor  # [N] float64, with sum one
    q: Tensor  # [K]
    features: tuple[Tensor, Tensor] | None
    alpha: float
    known_pairs: Tensor | None
    relaxation: Relaxation  # in the unit of squared costs
    epsilon: float  # likewise

    def value(self, scores: FactoredScores) -> Tensor:
        """The Lagrangian of the plan that is the optimum: a number, float64."""
        with torch.enable_grad():  # also for those who want the value alone: of the prices
            value = self._lagrangian(scores)
        has_history = any(each.requires_grad for each in self._tensors())
        return value if has_history and torch.is_grad_enabled() else value.detach()

    def _tensors(self) -> tuple[Tensor, ...]:
        return self.first.x, self.second.x, self.p, self.q, *(self.features or ())

    def _lagrangian(self, scores: FactoredScores) -> Tensor:
        sums = plan_sums(scores)
        tilt = _Tilt(scores, sums, self.p.detach(), self.q.detach())
        cost = self._cost(tilt)
        value = cost + self.epsilon * self._entropy(sums)
        prices = torch.autograd.grad(cost, (tilt.w, tilt.z), retain_graph=True)
        relaxation = self.relaxation
        sides = (
            (relaxation.fixes_rows, relaxation.rows, self.p, self.q, sums.r, scores),
            (relaxation.fixes_columns, relaxation.columns, self.q, self.p, sums.c, None),
        )
        for price, (is_fixed, rho, mass, other, sent, seen) in zip(prices, sides, strict=True):
            if is_fixed:
                seen = scores.transposed() if seen is None else seen
                price = price + self.epsilon * _mean_logarithms(seen, mass, other)
                value = value + price @ (mass - sent)
            elif rho > 0:
                value = value + rho * _divergence(sent, mass)
        if relaxation.is_balanced:  # the mean of all prices is in both
            value = value - (price @ mass.detach()) * (1 - sums.c.sum())
        return value

    def _cost(self, tilt: "_Tilt") -> Tensor:
        first, second = (replace(each, x=each.x.double()) for each in (self.first, self.second))
        cost = fused_cost(first, second, self.features, self.alpha, tilt.average, tilt.r, tilt.c)
        if self.known_pairs is None:
            return cost
        is_balanced = self.relaxation.is_balanced
        pull = known_pull(
            first, second, self.known_pairs, tilt.average, tilt.r, tilt.c, is_balanced
        )
        return cost + self.alpha * pull

    def _entropy(self, sums: PlanSums) -> Tensor:
        """KL(T | p q^T), of any mass; where a marginal is fixed, its derivative there is zero."""
        relaxation = self.relaxation
        p = self.p.detach() if relaxation.fixes_rows else self.p
        q = self.q.detach() if relaxation.fixes_columns else self.q
        logarithms = math.log(2) * sums.log2 - _weighted_log(sums.r, p) - _weighted_log(sums.c, q)
        return logarithms - sums.r.sum() + p.sum() * q.sum()


class _Tilt:
    """A plan and the two directions of which prices are derivatives: T + w q^T + p z^T at zero.

    Mass sent from i to all columns, as q has it, costs the price of row i and the mean price
    of the columns, which a change of masses of the same sum does not see.
    """

    def __init__(self, scores: FactoredScores, sums: PlanSums, p: Tensor, q: Tensor) -> None:
        self.scores, self.p, self.q = scores, p, q
        self.w = torch.zeros_like(p, requires_grad=True)
        self.z = torch.zeros_like(q, requires_grad=True)
        self.r = sums.r + self.w + p * self.z.sum()
        self.c = sums.c + self.z + q * self.w.sum()

    def average(self, y: Tensor) -> Tensor:
        """T y [N, D] of y [K, D]; sums are in the scores' type."""
        sent = average(self.scores, y.to(self.scores.like)).to(y)
        return sent + self.w[:, None] * (self.q @ y) + self.p[:, None] * (self.z @ y)


def _mean_logarithms(scores: FactoredScores, p: Tensor, q: Tensor) -> Tensor:
    """Sum over j of q_j ln(T_ij / (p_i q_j)), of each row [N].

    Where p is zero, it is the limit: the potential of a row does not depend on its mass otherwise.
    """
    p, q = p.detach(), q.detach()
    f = scores.f.double() - p.log2()
    without = p == 0
    if bool(without.any()):
        f = torch.where(without, row_potentials(scores, without), f)
    g = torch.where(q > 0, scores.g.double() - q.log2(), 0)
    return math.log(2) * (scores.u.double() @ (q @ scores.v.double()) + f + q @ g)


def _divergence(sent: Tensor, mass: Tensor) -> Tensor:
    """KL(sent | mass), of any masses."""
    return (
        torch.special.xlogy(sent, sent).sum() - _weighted_log(sent, mass) - sent.sum() + mass.sum()
    )


def _weighted_log(weight: Tensor, mass: Tensor) -> Tensor:
    """Sum of weight ln(mass) where there is mass."""
    has_mass = mass.detach() > 0
    return weight @ torch.where(has_mass, mass, 1).log()
