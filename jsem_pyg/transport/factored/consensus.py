"""Which points a plan has rather right: those whose costs their partners share.

Descent often ends with whole regions of points in one another's places, and cannot exchange them.
But the right part of a plan agrees with itself and the wrong parts with nothing, so that the part
that agrees most says where the others belong, once the plan is warm enough for them to move.
"""

import torch
from torch import Tensor

from ..problem.problem import Problem, second_moments
from .descent import Pass, State, plan_pass

_AGREEING = 0.5  # the share of the mass that is asked


def consensus(problem: Problem, state: State, one_pass: Pass) -> Tensor:
    """Moments [R, R'] as if all points went the way of the half that agrees most.

    Args:
        problem: the problem.
        state: a single descent.
        one_pass: a `sinkhorn_pass`.
    """
    target = problem.target.z
    signal = torch.cat([target, torch.ones_like(target[:, :1])], 1)
    sent = plan_pass(problem, state, signal, one_pass).average.double()
    mass, total = sent[:, -1], sent[:, -1].sum()
    order = agreement(problem, sent[:, :-1], mass).argsort(descending=True)
    before = mass[order].cumsum(0) - mass[order]
    chosen = order[before < _AGREEING * total]
    moments = problem.source.z[chosen].double().T @ sent[chosen, :-1]
    return moments * (total / mass[chosen].sum())


def agreement(problem: Problem, sent: Tensor, mass: Tensor) -> Tensor:
    """How like a point's costs are to those of its partner: [N] cosines over all matched pairs.

    Args:
        problem: the problem.
        sent: [N, R'] T V.
        mass: [N] T 1.
    """
    x, y = problem.coordinates
    signs = problem.coupling.signs
    least = torch.finfo(mass.dtype).tiny
    left = x.double()
    right = sent[:, : y.size(1)] / mass[:, None].clamp(min=least)  # where the partners are
    together = signs[0][:, None] * (left.T @ (mass[:, None] * right)) * signs[1]
    product = ((left @ together) * right).sum(1)
    squares = [
        (((each * sign) @ second_moments(each, mass)) * (each * sign)).sum(1)
        for each, sign in zip((left, right), signs, strict=True)
    ]
    return product / (squares[0] * squares[1]).clamp(min=least).sqrt()
