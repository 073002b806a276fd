r"""The value of a transport problem at its optimum, with the gradients of the optimum.

By the envelope theorem (Danskin), the derivative of a minimum is the derivative of the objective
at the minimiser held fixed, plus what the constraints cost: with the Lagrangian

.. math::
    L(\mathbf{T}) = F(\mathbf{T}) + \langle \lambda, \mathbf{p} - \mathbf{T} 1 \rangle
    + \langle \mu, \mathbf{q} - \mathbf{T}^T 1 \rangle

the derivatives in coordinates and features are the derivatives of F, and the derivatives in p and q
get the prices lambda and mu of mass. L does not change to first order in T, so that its value is
right to second order in what a solver has left of the marginal error.
"""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..costs.first_order import refuse_second_derivative
from ..plan.plan import Plan
from ..plan.scores import FactoredScores, average
from ..problem.objective import fused_cost, known_pull
from ..solver.task import Task


def value_at(task: Task, plan: Plan) -> Tensor:
    """Compute the objective of a task at its optimum, a plan of :func:`.gromov_wasserstein`.

    With first derivatives in both factors, masses and features; a second one is refused, since the
    plan is held fixed.
    """
    for name, mass in (("p", task.p), ("q", task.q)):
        if mass.requires_grad and bool((mass == 0).any()):
            raise ValueError(
                f"Expected '{name}' to be positive, as its gradient is asked for (got zeros). To "
                "fix this, leave these points out."
            )
    value: Tensor = _Optimum.apply(task, plan, *task.tensors)
    return value


class _Optimum(torch.autograd.Function):
    """The Lagrangian, whose derivatives are computed together with it."""

    @staticmethod
    def forward(ctx: Any, task: Task, plan: Plan, *tensors: Tensor) -> Tensor:
        with torch.enable_grad():
            given = [each.detach().clone().requires_grad_() for each in tensors]
            x, y, p, q = given[:4]
            first, second = replace(task.first, x=x), replace(task.second, x=y)
            task = replace(task, first=first, second=second, p=p, q=q)
            if task.features is not None:
                task = replace(task, features=(given[4], given[5]))
            value = _lagrangian(task, plan)
            if any(ctx.needs_input_grad):
                ctx.save_for_backward(*torch.autograd.grad(value, given))
        return value.detach().to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative("the optimum of a transport problem")
        return None, None, *(grad * each for each in ctx.saved_tensors)


def _lagrangian(task: Task, plan: Plan) -> Tensor:
    """Compute the Lagrangian of the optimum, float64."""
    scores, p, q = plan.scores, task.p, task.q
    assert isinstance(scores, FactoredScores)
    r, c = plan.marginals()
    tilt = _Tilt(scores, r, c, p.detach(), q.detach())
    first, second = (replace(each, x=each.x.double()) for each in (task.first, task.second))
    cost = fused_cost(first, second, task.features, task.alpha, tilt.average, tilt.r, tilt.c)
    if task.known_pairs is not None:
        cost = cost + task.alpha * known_pull(
            first, second, task.known_pairs, tilt.average, tilt.r, tilt.c
        )
    value = cost + plan.epsilon * _entropy(scores, r, c, p.detach(), q.detach())
    prices = torch.autograd.grad(cost, (tilt.w, tilt.z), retain_graph=True)
    rows, columns = (scores, p, q, r), (scores.transposed(), q, p, c)
    for price, (seen, mass, other, sent) in zip(prices, (rows, columns), strict=True):
        price = price + plan.epsilon * _mean_logarithms(seen, mass.detach(), other.detach())
        value = value + price @ (mass - sent)
    # The mean of all prices is in both.
    return value - (price @ mass.detach()) * (1 - c.sum())


class _Tilt:
    """A plan with two directions, T + w q^T + p z^T: prices are the derivatives at zero.

    Mass sent from i to all columns, as q has it, costs the price of row i and the mean price
    of the columns; a change of masses of the same sum does not see it.
    """

    def __init__(self, scores: FactoredScores, r: Tensor, c: Tensor, p: Tensor, q: Tensor) -> None:
        self.scores, self.p, self.q = scores, p, q
        self.w = torch.zeros_like(p, requires_grad=True)
        self.z = torch.zeros_like(q, requires_grad=True)
        self.r = r + self.w + p * self.z.sum()
        self.c = c + self.z + q * self.w.sum()

    def average(self, y: Tensor) -> Tensor:
        """Compute T y [N, D] of y [K, D]."""
        sent = average(self.scores, y)
        return sent + self.w[:, None] * (self.q @ y) + self.p[:, None] * (self.z @ y)


def _entropy(scores: FactoredScores, r: Tensor, c: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """Compute KL(T | p q^T) of a plan with the masses r and c."""
    means, mass = scores.averages(scores.v)
    log2 = (mass[:, None] * scores.u.double() * means).sum()
    for sent, potential, wanted in ((r, scores.f, p), (c, scores.g, q)):
        log2 = log2 + sent @ torch.where(wanted > 0, potential.double() - wanted.log2(), 0)
    return math.log(2) * log2 - r.sum() + 1


def _mean_logarithms(scores: FactoredScores, p: Tensor, q: Tensor) -> Tensor:
    """Sum over j: q_j ln(T_ij / (p_i q_j)), of each row [N]; zero without mass."""
    f, g = (
        torch.where(mass > 0, potential.double() - mass.log2(), 0)
        for mass, potential in ((p, scores.f), (q, scores.g))
    )
    logarithms = scores.u.double() @ (q @ scores.v.double()) + f + q @ g
    return torch.where(p > 0, math.log(2) * logarithms, 0)
