"""From a plan that is known to the optimum next to it."""

from dataclasses import replace

import torch
from torch import Tensor

from ..plan.plan import Plan, Step
from ..problem.problem import Problem, second_moments
from ..sinkhorn.anderson import Mixer
from ..sinkhorn.scores import FactoredScores, average, column_sums, row_sums
from .descent import Effort, Pass, State, begin, column_potential, row_vectors, settle
from .ladder import COOLING
from .pyramid import Report, Schedule

# Moments are renewed only when the marginals are met: before, the plan of a changed problem may
# have its mass anywhere.
_SINKHORN_PASSES = 60

_COOLING = Effort(tol=1e-2, sinkhorn_passes=30, updates=3)  # on the way to the last temperature

_WORSE = 2.0  # marginal errors that grew by this factor: mixing has lost its way
_LOST = 2.0**-30  # the share of its mass with which a column counts as lost
_BALANCED = torch.ones(()), torch.tensor(torch.inf)  # damping and cap of rows that are fixed


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
    lowest = moments.new_tensor(schedule.lowest).double()
    state = begin(problem, moments.double(), lowest.clamp(min=plan.epsilon / unit))
    x, y = problem.coordinates
    if not problem.relaxation.fixes_rows:
        state = replace(state, sent=second_moments(x, row_sums(plan.scores)))
    if not problem.relaxation.fixes_columns:
        state = replace(state, received=second_moments(y, column_sums(plan.scores)))
    if isinstance(plan.scores, FactoredScores) and plan.epsilon > 0:
        state = replace(state, psi=_potential(problem, plan.scores, state, plan.epsilon / unit))
    follow = _follow if problem.relaxation.is_balanced else settle
    while state.epsilon > lowest * (1 + 1e-6):  # not for the rounding of units
        state = replace(state, epsilon=torch.maximum(state.epsilon / COOLING, lowest))
        state = follow(problem, state, one_pass, _COOLING)
    effort = Effort(schedule.tol, _SINKHORN_PASSES, schedule.max_updates)
    state = replace(state, epsilon=lowest)
    state = follow(problem, state, one_pass, effort)
    numbers = (state.epsilon, state.energy, state.error, state.peak)
    report(Step("all points", *(float(each) for each in numbers)))
    return state


def steady(problem: Problem, state: State, schedule: Schedule, one_pass: Pass) -> State:
    """A state that has not converged, after steps that are slower, and surer; of balanced plans."""
    if not problem.relaxation.is_balanced:
        return state
    effort = Effort(schedule.tol, _SINKHORN_PASSES, schedule.max_updates)
    return _follow(problem, state, one_pass, effort)


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


def _follow(problem: Problem, state: State, one_pass: Pass, effort: Effort) -> State:
    """What `settle` does for balanced plans, but no potential goes astray on the way."""
    source, target = problem.source, problem.target
    for _ in range(effort.updates):
        before = state.moments
        u = row_vectors(problem, before, state.epsilon)
        psi, error = _balance(problem, u, state.psi / state.epsilon.to(u), one_pass, effort)
        done = one_pass(u, target.z, target.log2_mass + psi, source.log2_mass, target.z, *_BALANCED)
        moments = (source.z.T @ done.average).double()
        moved = (moments - before).norm() / before.norm().clamp(min=torch.finfo(u.dtype).tiny)
        state = replace(
            state,
            moments=moments,
            psi=psi * state.epsilon.to(psi),
            f=done.f,
            energy=problem.coupling.energy(moments),
            error=error,
            peak=(done.peak * source.mass).sum().double(),
            moved=moved,
        )
        if moved < effort.tol and error < effort.tol:
            break
    # At a small temperature little changes of the moments make a difference to the marginals.
    u = row_vectors(problem, state.moments, state.epsilon)
    psi, error = _balance(problem, u, state.psi / state.epsilon.to(u), one_pass, effort)
    return replace(state, psi=psi * state.epsilon.to(psi), error=error)


def _balance(
    problem: Problem, u: Tensor, psi: Tensor, one_pass: Pass, effort: Effort
) -> tuple[Tensor, Tensor]:
    """Column potentials psi [K], in bits, of the plan of row vectors u; and its marginal error.

    Anderson mixing is quick near the solution. Far from it, it may throw all the mass of a column
    away, of which nothing is left to mix: then the last good potentials take a step of Sinkhorn's
    iteration, which has no such trouble.
    """
    source, target = problem.source, problem.target
    q, no_signal = target.mass, (target.z[:, :0], u[:, :0])
    mixer, good, lowest = Mixer(q), psi, u.new_tensor(torch.inf).double()
    for _ in range(effort.sinkhorn_passes):
        rows = one_pass(
            u, target.z, target.log2_mass + psi, source.log2_mass, no_signal[0], *_BALANCED
        )
        error = (rows.column_mass - q).abs().sum()
        if error < _WORSE * lowest:
            good, lowest = (psi, error) if error < lowest else (good, lowest)
            if error < effort.tol:
                break
            residual = (q / rows.column_mass.clamp(min=torch.finfo(q.dtype).tiny)).log2()
            psi = mixer.next(psi, torch.where(q > 0, residual, 0).to(psi))
        else:
            mixer.forget()
            psi = good
        if not error < _WORSE * lowest or bool((rows.column_mass < _LOST * q).any()):
            mixer.forget()
            f = one_pass(
                u, target.z, target.log2_mass + good, source.log2_mass, no_signal[0], *_BALANCED
            ).f
            columns = one_pass(target.z, u, f, target.log2_mass, no_signal[1], *_BALANCED)
            psi = torch.where(q > 0, columns.f - target.log2_mass, 0)
    return good, lowest
