"""From a plan that is known to the optimum next to it."""

from dataclasses import replace

import torch
from torch import Tensor

from .descent import Effort, Pass, State, begin, column_potential, row_vectors, settle
from .plan import Plan, Step
from .problem import Problem, second_moments
from .pyramid import Report, Schedule
from .scores import FactoredScores, average, column_sums, row_sums

# Moments are renewed only when the marginals are met: before, the plan of a changed problem may
# have its mass anywhere.
_SINKHORN_PASSES = 60


def resume(
    problem: Problem, plan: Plan, schedule: Schedule, one_pass: Pass, unit: float, report: Report
) -> State:
    """Go on from a plan of as many points, at the lowest temperature.

    Args:
        problem: the problem, whose coordinates may be others than those of the plan.
        plan: where to begin.
        schedule: how the problem is worked on.
        one_pass: over a plan of the problem.
        unit: what a squared cost of the problem is in those of the plan's temperature.
        report: is told of the step.

    Raises:
        ValueError: if the plan has another shape.
    """
    if plan.shape != problem.shape:
        raise ValueError(
            f"Expected 'starts' to be a plan of {problem.shape[0]} x {problem.shape[1]} points "
            f"(got {plan.shape[0]} x {plan.shape[1]})."
        )
    moments = problem.source.z.T @ average(plan.scores, problem.target.z)
    state = begin(problem, moments.double(), moments.new_tensor(schedule.lowest).double())
    x, y = problem.coordinates
    if not problem.relaxation.fixes_rows:
        state = replace(state, sent=second_moments(x, row_sums(plan.scores)))
    if not problem.relaxation.fixes_columns:
        state = replace(state, received=second_moments(y, column_sums(plan.scores)))
    if isinstance(plan.scores, FactoredScores) and plan.epsilon > 0:
        state = replace(state, psi=_potential(problem, plan.scores, state, plan.epsilon / unit))
    effort = Effort(schedule.tol, _SINKHORN_PASSES, schedule.max_updates)
    state = settle(problem, state, one_pass, effort)
    numbers = (state.epsilon, state.energy, state.error, state.peak)
    report(Step("all points", *(float(each) for each in numbers)))
    return state


def _potential(problem: Problem, scores: FactoredScores, state: State, epsilon: float) -> Tensor:
    """The potentials psi [K] with which the problem has the plan's scores, at its temperature.

    Scores say what the potentials of columns are only up to what is linear in the columns' vectors;
    so their means over the rows are compared.
    """
    then = replace(state, epsilon=state.epsilon.new_tensor(epsilon))
    p = problem.source.mass.double()
    u = row_vectors(problem, then.moments, then.epsilon)
    seen = scores.g.double() + scores.v.double() @ (p @ scores.u.double())
    own = column_potential(problem, then) + problem.target.z @ (p @ u.double()).to(u)
    psi = epsilon * (seen - own.double())
    return torch.where(problem.target.mass > 0, psi, 0).to(state.psi)
