"""Descent among all points: the candidates are cooled to the end, and the best is restarted.

Descent often ends with whole regions of points in each other's places, and cannot exchange them.
But the costs among correctly matched points agree with those among their partners, and others do
not. So a plan is started again from the points that agree best, warm enough for others to move.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..plan.plan import Plan
from ..plan.scores import FactoredScores
from ..problem.problem import FINAL_BITS, Problem, agreement, resolved
from .descent import (
    COOLING,
    Budget,
    State,
    begin,
    begin_from_plan,
    is_independent,
    make_kernel,
    renewed,
    scale,
    score,
    settle,
)
from .schedule import SCHEDULE, Run
from .small import SmallBudget, cool_small_states

_ROUNDING = 1e-9  # of sums of masses
_FOLLOWING = Budget(
    SCHEDULE.follow_tol, SCHEDULE.follow_passes, SCHEDULE.follow_updates, is_careful=True
)


def descend(problem: Problem, candidates: list[State], run: Run) -> State:
    """Find the best state: cool candidates, and restart the best until energy falls no more."""
    cooled = [cool(problem, each, run) for each in candidates]
    state = min(cooled, key=lambda each: float(score(problem, each)))
    if problem.has_few_axes:
        return state  # principal axes have compared all plans that restarts could find
    epsilon = torch.full_like(state.epsilon, SCHEDULE.restarted * run.critical)
    for _ in range(SCHEDULE.restarts):
        if not state.epsilon < epsilon:
            break  # the plan is as warm as that, and not sharp
        other = cool(problem, begin(problem, consistent_moments(problem, state), epsilon), run)
        old, new = (float(score(problem, each)) for each in (state, other))
        if not new < old - SCHEDULE.lower * abs(float(state.energy)):
            break
        state = other
    return state


def cool(problem: Problem, state: State, run: Run) -> State:
    """Bring a single state to the last temperature, and work on it there until it settles."""
    if problem.is_small:
        budget = SmallBudget(run.max_iter, 300, 1e-9, 0.1 * run.tol)
        state = cool_small_states(problem, state.take(None), run, budget).take(0)
    valid = state  # the last one that meets the marginals
    while not problem.is_small:
        state = _settled(problem, state, valid, COOLING)
        valid = state if state.error < SCHEDULE.feasible else valid
        run.report(state.step("all points"))
        is_sharp = run.may_stop and state.sharpness >= SCHEDULE.final_sharp
        if state.epsilon <= run.lowest or is_sharp:
            break
        state = replace(state, epsilon=(state.epsilon / SCHEDULE.cooling).clamp(min=run.lowest))
    state = _settled(problem, state, valid, Budget(tol=run.tol, updates=run.max_iter))
    run.report(state.step("all points"))
    return state


def _settled(problem: Problem, state: State, valid: State, budget: Budget) -> State:
    """Work on a single state until it settles; if it loses its moments, start at a valid one.

    Few passes over a sharp plan may send all rows to one column: its mean is then the mean of all.
    """
    found = settle(problem, state, budget)
    if problem.has_saddle and is_independent(found) and not is_independent(valid):
        again = replace(valid, epsilon=state.epsilon)
        careful = replace(budget, passes=SCHEDULE.many_passes, is_careful=True)
        found = settle(problem, again, careful)
    return found


def follow(problem: Problem, plan: Plan, run: Run) -> State:
    """Continue from a plan, down to the last temperature."""
    epsilon = plan.epsilon / run.unit
    if epsilon > run.critical:  # which would melt the plan, as may be one of other costs
        epsilon = SCHEDULE.warm * run.critical
    state = begin_from_plan(problem, plan, max(epsilon, run.lowest), run.unit)
    lowest = torch.full_like(state.epsilon, run.lowest)
    while state.epsilon > lowest * (1 + 1e-6):  # not for the rounding of units
        state = replace(state, epsilon=torch.maximum(state.epsilon / SCHEDULE.cooling, lowest))
        state = settle(problem, state, _FOLLOWING)
    budget = Budget(run.tol, SCHEDULE.many_passes, run.max_iter, is_careful=True)
    state = settle(problem, replace(state, epsilon=lowest), budget)
    run.report(state.step("all points"))
    return state


class Solved(NamedTuple):
    """The scores of a plan, and how near it is to an optimum."""

    scores: FactoredScores
    epsilon: float
    error: float  # marginal error
    moved: float  # relative change of the solution in the last step
    is_saddle: bool = False


def finish(problem: Problem, state: State, run: Run) -> Solved:
    """Take the plan of a state's scores, scaled once more: its own errors count."""
    problem = resolved(problem, float(state.epsilon), run.unit, FINAL_BITS)
    state = state.like(problem.source.z)
    passes = SCHEDULE.many_passes
    for budget in (Budget(run.tol, passes, run.max_iter, is_careful=True), None):
        # More than asked for, so that marginal errors do not change the moments.
        found = scale(problem, state, Budget(0.1 * run.tol, passes, 1, is_careful=True))
        moved, error = float(renewed(problem, state, found).moved), float(found.error)
        if (error < run.tol and moved < run.tol) or budget is None:
            break
        state = settle(problem, state, budget)
    is_cold = float(state.epsilon) < SCHEDULE.stable * problem.critical_epsilon()
    is_saddle = is_cold and problem.has_saddle and bool(is_independent(state))
    kernel = make_kernel(problem, state)
    scores = FactoredScores(kernel.u, kernel.v, found.done.f, kernel.bias + found.psi)
    return Solved(scores, float(state.epsilon), error, moved, is_saddle)


def consistent_moments(problem: Problem, state: State) -> Tensor:
    """Compute the moments [R, R'] of the consistent half of a plan, scaled to the whole mass."""
    sent = scale(problem, state, Budget(passes=1)).done.average.double()
    mass = problem.source.mass.double()
    x, y = problem.coordinates
    least = torch.finfo(mass.dtype).tiny
    partners = sent[:, : y.size(1)] / mass[:, None].clamp(min=least)
    cosine = agreement(x.double(), partners, mass, problem.coupling.signs)
    total = mass.sum()
    order = cosine.argsort(descending=True)
    before = mass[order].cumsum(0) - mass[order]
    chosen = order[before < (SCHEDULE.agreeing - _ROUNDING) * total]
    moments = problem.source.z[chosen].double().T @ sent[chosen]
    return moments * (total / mass[chosen].sum())
