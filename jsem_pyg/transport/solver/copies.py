r"""Copies: cold plans between a set of points and its image under an isometry, without cooling.

Between cold temperatures Sinkhorn's iteration hardly moves: masses travel by the distance of a few
points in a pass. For copies, however, the potentials are known. With :math:`\mathbf{y}_j =
\mathbf{Q}^T \mathbf{x}_j` the scores are :math:`\mathbf{x}_i^T \mathbf{A} \mathbf{y}_j`, where
:math:`\mathbf{A} = \mathbf{S} \mathbf{Q}` with a symmetric, positive semidefinite S. Subtract half
of :math:`\mathbf{x}_i^T \mathbf{S} \mathbf{x}_i` from each row and half of
:math:`\mathbf{y}_j^T |\mathbf{A}| \mathbf{y}_j` from each column, with :math:`|\mathbf{A}| =
\mathbf{Q}^T \mathbf{S} \mathbf{Q}`: the scores become
:math:`-\tfrac{1}{2} |\mathbf{S}^{1/2} (\mathbf{x}_i - \mathbf{x}_j)|^2`, so every point prefers its
own image. Moments of that plan give the next A, as in iterated closest points.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..problem.problem import LOG2E, Problem, resolved, second_moments
from .descent import Budget, State, settle
from .schedule import SCHEDULE, Run

_ONE_PASS = Budget(passes=1, updates=1)


def cool_copies(problem: Problem, state: State, run: Run) -> tuple[Problem, State]:
    """Find a colder state if both sides turn out to be copies: there it is a permutation."""
    is_equal = problem.shape[0] == problem.shape[1] and _has_equal_axes(problem)
    is_blunt = state.sharpness < SCHEDULE.final_sharp
    is_warm = is_blunt and run.lowest >= SCHEDULE.coldest * run.critical
    if not is_equal or not is_warm or _mismatch(problem, state) > SCHEDULE.nearly_copy:
        return problem, state
    coldest = run.lowest / SCHEDULE.sharpening
    colder = resolved(problem, coldest, run.unit)
    begun = replace(state.like(colder.source.z), epsilon=torch.full_like(state.epsilon, coldest))
    found = _unfolded(colder, begun, run)
    is_copy = bool(found.error < run.tol) and _mismatch(colder, found) < SCHEDULE.copy
    return (colder, found) if is_copy else (problem, state)


def _has_equal_axes(problem: Problem) -> bool:
    """Return True if both sides have the same variance on each principal axis, as copies have."""
    first, second = (
        pad(side.mass.double() @ x.double().square(), (0, max(problem.coupling.fixed.shape)))
        for x, side in zip(problem.coordinates, problem.sides, strict=True)
    )
    size = max(problem.coupling.fixed.shape)
    return bool((first[:size] - second[:size]).norm() < SCHEDULE.copy * first.norm())


def _mismatch(problem: Problem, state: State) -> float:
    """Measure how much of both cost matrices is left unmatched: 0 for copies, up to 1."""
    rank, other = problem.coupling.fixed.shape
    x, y = problem.coordinates
    norms = [
        float(second_moments(x, side.mass).norm())
        for x, side in ((x, problem.source), (y, problem.target))
    ]
    matched = float(state.moments[:rank, :other].square().sum())
    return 1 - matched / max(norms[0] * norms[1], 1e-30)


def _unfolded(problem: Problem, state: State, run: Run) -> State:
    """Find the settled state of a balanced plan, by the potentials of copies."""
    for _ in range(SCHEDULE.copy_steps):
        state = settle(problem, replace(state, psi=_potentials(problem, state)), _ONE_PASS)
        if float(state.moved) < run.tol:
            break
    state = settle(problem, state, Budget(run.tol, SCHEDULE.many_passes, 1, is_careful=True))
    run.report(state.step("all points, as copies"))
    return state


def _potentials(problem: Problem, state: State) -> Tensor:
    """Compute the column potentials [K] of copies, in bits times epsilon."""
    _, sizes, right = torch.linalg.svd(problem.coupling.scores(state.moments), False)
    lengths = (problem.target.z.double() @ (right.mT * sizes.sqrt())).square().sum(-1)
    return (-0.5 * LOG2E * lengths).to(state.psi)
