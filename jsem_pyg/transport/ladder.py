"""Down the temperatures, from the one at which a start begins to speak to the one asked for."""

from dataclasses import replace

import torch
from torch import Tensor

from .descent import Effort, Pass, State, row_vectors, settle
from .problem import Problem

COOLING = 1.5  # a step
SHARP = 0.7  # the mean of the rows' largest shares at which cells have found their partners
_BISECTIONS = 20


def speaking_temperature(
    problem: Problem, moments: Tensor, contrast: float, lowest: float
) -> Tensor:
    """The temperatures [S] at which rows of scores peak at `contrast` times the uniform share."""
    low = moments.new_full(moments.shape[:-2], lowest)
    high = low.new_full(low.shape, max(problem.critical_epsilon(), 2 * lowest))
    p, log2_q = problem.source.mass, problem.target.log2_mass
    wanted = min(contrast * float(problem.target.mass.square().sum()), 0.9)
    for _ in range(_BISECTIONS):
        middle = (low * high).sqrt()
        scores = row_vectors(problem, moments, middle) @ problem.target.z.T + log2_q
        peak = (torch.softmax(scores * 0.6931471805599453, -1).amax(-1) * p).sum(-1)
        is_sharp = peak > wanted
        low, high = torch.where(is_sharp, middle, low), torch.where(is_sharp, high, middle)
    return (low * high).sqrt()


def race(problem: Problem, states: State, lowest: float, one_pass: Pass, effort: Effort) -> State:
    """Cool all starts until their cells have found their partners, or the lowest temperature."""
    while True:
        states = settle(problem, states, one_pass, effort)
        going = (states.peak < SHARP) & (states.epsilon > lowest)
        if not bool(going.any()):
            return states
        cooler = (states.epsilon / COOLING).clamp(min=lowest)
        states = replace(states, epsilon=torch.where(going, cooler, states.epsilon))
