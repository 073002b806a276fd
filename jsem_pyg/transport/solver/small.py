"""Small problems: every start is cooled to the last temperature, by compiled code.

Between a few points the calls of tensor operations would take longer than their numbers.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ...kernels.sinkhorn.small_plans import cool_small
from ..problem.problem import LOG2E, Problem
from .descent import State, begin, score
from .schedule import SCHEDULE, Run


class SmallBudget(NamedTuple):
    """How long a temperature is worked on; see :func:`cool_small`."""

    updates: int
    passes: int
    tol: float
    still: float


RACING = SmallBudget(3, 30, 1e-3, 1e-3)
COMPARING = SmallBudget(12, 50, 1e-4, 1e-3)
KEPT = 8  # states that are compared


def race_small(problem: Problem, moments: Tensor, epsilon: Tensor, run: Run) -> State:
    """Find the best state, of those that come from moments [S, R, R'] and temperatures [S]."""
    states = begin(problem, moments, epsilon)
    for budget in (RACING, COMPARING):
        states = cool_small_states(problem, states, run, budget)
        states = states.take(score(problem, states).argsort()[:KEPT])
    return states.take(0)


def cool_small_states(problem: Problem, states: State, run: Run, budget: SmallBudget) -> State:
    """Bring states [S] to the last temperature."""
    source, target = problem.source, problem.target
    rows, columns = source.mass > 0, target.mass > 0
    given = (
        source.z[rows], target.z[columns], problem.coupling.linear,
        4 * problem.coupling.kappa * problem.coupling.sign, problem.coupling.fixed,
        source.mass[rows], target.mass[columns],
    )  # fmt: skip
    potential = states.psi[:, columns].double() / (LOG2E * states.epsilon[:, None])
    zeros = torch.zeros_like(states.epsilon)
    changed = (states.moments.clone(), potential, zeros, states.epsilon.clone())
    arrays = [each.double().contiguous().cpu() for each in (*given, *changed)]
    cool_small(
        *(each.numpy() for each in arrays),
        max(run.lowest, 0.0),
        SCHEDULE.final_sharp if run.may_stop else torch.inf,
        SCHEDULE.cooling,
        *budget,
    )
    found, potential, error, temperature = (each.to(zeros.device) for each in arrays[7:])
    psi = states.psi.clone()
    psi[:, columns] = (potential * LOG2E * temperature[:, None]).to(psi)
    return replace(
        states,
        moments=found,
        psi=psi,
        epsilon=temperature,
        error=error,
        energy=problem.coupling.energy(found),
    )
