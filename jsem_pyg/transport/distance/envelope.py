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

from ..costs.first_order import first_order
from ..plan.scores import FactoredScores, PlanSums, average, plan_sums, row_potentials
from ..problem.objective import fused_cost, known_pull
from ..problem.relaxation import Relaxation
from ..solver.task import Task

_WHAT = "the optimum of a transport problem"


def value_at(task: Task, plan: Any) -> Tensor:
    """Compute the objective of a task at its optimum, a plan of :func:`.gromov_wasserstein`.

    With gradients in both factors, masses and features.
    """
    first, second = (
        replace(each, x=first_order(each.x, _WHAT)) for each in (task.first, task.second)
    )
    p, q = (first_order(mass, _WHAT) for mass in (task.p, task.q))
    features = task.features
    if features is not None:
        features = first_order(features[0], _WHAT), first_order(features[1], _WHAT)
    known = task.known_pairs
    if known is not None and known.is_inference():
        task = replace(task, known_pairs=known.clone())
    task = replace(task, first=first, second=second, p=p, q=q, features=features)
    relaxation = task.relaxation()
    fixed = relaxation.fixes_rows, relaxation.fixes_columns
    for name, mass, is_fixed in zip("pq", (p, q), fixed, strict=True):
        if mass.requires_grad and not is_fixed and bool((mass == 0).any()):
            raise ValueError(
                f"Expected '{name}' to be positive, as its gradient is asked for and its marginal "
                "is not fixed (got zeros). To fix this, leave these points out."
            )
    with torch.enable_grad():  # the prices are derivatives, which the value alone needs too
        value = _lagrangian(task, plan, relaxation)
    if not (torch.is_grad_enabled() and any(each.requires_grad for each in task.tensors)):
        value = value.detach()
    return value.to(first.x.dtype)


def _lagrangian(task: Task, plan: Any, relaxation: Relaxation) -> Tensor:
    """Compute the Lagrangian of the optimum, float64; for masses of sum one."""
    scores, epsilon, p, q = plan.scores, plan.epsilon, task.p, task.q
    sums = plan_sums(scores)
    tilt = _Tilt(scores, sums, p.detach(), q.detach())
    first, second = (replace(each, x=each.x.double()) for each in (task.first, task.second))
    cost = fused_cost(first, second, task.features, task.alpha, tilt.average, tilt.r, tilt.c)
    if task.known_pairs is not None:
        cost = cost + task.alpha * known_pull(
            first, second, task.known_pairs, tilt.average, tilt.r, tilt.c, relaxation.is_balanced
        )
    value = cost + epsilon * _entropy(sums, p, q, relaxation)
    prices = torch.autograd.grad(cost, (tilt.w, tilt.z), retain_graph=True)
    rows = relaxation.fixes_rows, relaxation.rows, p, q, sums.r, scores
    columns = relaxation.fixes_columns, relaxation.columns, q, p, sums.c, None
    for price, (is_fixed, rho, mass, other, sent, seen) in zip(
        prices, (rows, columns), strict=True
    ):
        if is_fixed:
            seen = scores.transposed() if seen is None else seen
            price = price + epsilon * _mean_logarithms(seen, mass, other)
            value = value + price @ (mass - sent)
        elif rho > 0:
            value = value + rho * _divergence(sent, mass)
    if relaxation.is_balanced:  # the mean of all prices is in both
        value = value - (price @ mass.detach()) * (1 - sums.c.sum())
    return value


class _Tilt:
    """A plan with two directions, T + w q^T + p z^T: prices are the derivatives at zero.

    Mass sent from i to all columns, as q has it, costs the price of row i and the mean price
    of the columns; a change of masses of the same sum does not see it.
    """

    def __init__(self, scores: FactoredScores, sums: PlanSums, p: Tensor, q: Tensor) -> None:
        self.scores, self.p, self.q = scores, p, q
        self.w = torch.zeros_like(p, requires_grad=True)
        self.z = torch.zeros_like(q, requires_grad=True)
        self.r = sums.r + self.w + p * self.z.sum()
        self.c = sums.c + self.z + q * self.w.sum()

    def average(self, y: Tensor) -> Tensor:
        """Compute T y [N, D] of y [K, D]."""
        sent = average(self.scores, y)
        return sent + self.w[:, None] * (self.q @ y) + self.p[:, None] * (self.z @ y)


def _entropy(sums: PlanSums, p: Tensor, q: Tensor, relaxation: Relaxation) -> Tensor:
    """Compute KL(T | p q^T), of any mass; without derivative in marginals that are fixed."""
    p = p.detach() if relaxation.fixes_rows else p
    q = q.detach() if relaxation.fixes_columns else q
    logarithms = math.log(2) * sums.log2 - _weighted_log(sums.r, p) - _weighted_log(sums.c, q)
    return logarithms - sums.r.sum() + p.sum() * q.sum()


def _mean_logarithms(scores: FactoredScores, p: Tensor, q: Tensor) -> Tensor:
    """Sum over j: q_j ln(T_ij / (p_i q_j)), of each row [N].

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
    """Compute KL(sent | mass), of any masses."""
    return (
        torch.special.xlogy(sent, sent).sum() - _weighted_log(sent, mass) - sent.sum() + mass.sum()
    )


def _weighted_log(weight: Tensor, mass: Tensor) -> Tensor:
    """Sum weight ln(mass) over points with mass."""
    has_mass = mass.detach() > 0
    return weight @ torch.where(has_mass, mass, 1).log()
