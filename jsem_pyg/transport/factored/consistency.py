"""Consistency restart: begin again from the part of a plan whose costs agree best.

Descent often ends with whole regions of points in each other's places, and cannot exchange them.
But the costs among correctly matched points agree with those among their partners, and others do
not. So a plan is started again from the points that agree best, warm enough for others to move.
"""

import torch
from torch import Tensor

from ..problem.problem import Problem, second_moments
from .descent import State, averages

_ROUNDING = 1e-9  # of sums of masses
_AGREEING = 0.5  # the share of the mass that a restart begins from


def consistent_moments(problem: Problem, state: State) -> Tensor:
    """Moments [R, R'] of the consistent half of a single plan, scaled to the whole mass."""
    sent, mass = averages(problem, state)
    total = mass.sum()
    order = agreement(problem, sent, mass).argsort(descending=True)
    before = mass[order].cumsum(0) - mass[order]
    chosen = order[before < (_AGREEING - _ROUNDING) * total]
    moments = problem.source.z[chosen].double().T @ sent[chosen]
    return moments * (total / mass[chosen].sum())


def agreement(problem: Problem, sent: Tensor, mass: Tensor) -> Tensor:
    """The cosine [N] of each point's costs and its partner's costs, over all matched pairs.

    `sent` [N, R'] is T V, and `mass` [N] is T 1.
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
