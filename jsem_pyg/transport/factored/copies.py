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
from ..sinkhorn.loop import column_step, row_step
from .annealing import COOLING, FINAL_SHARP, Schedule, cool
from .descent import Effort, State, make_kernel, settle

_NEARLY, _EXACT = 0.02, 2e-3  # mismatch of sides that may be copies, and of copies
_SHARPENING = 100.0  # times colder than `epsilon`
_COLD = 1e-6  # a share of the critical temperature below which nothing is sharpened
_STEPS = 8  # of the moments, at most
_ONE_PASS = Effort(passes=1, updates=1)
_PAIRS = 12  # of passes over rows and columns, at most
_EVEN = 0.3  # of `tol`, by which the rows of a symmetric plan may miss their masses
_SLOW = 0.8  # of what was missed before: the plan is not as symmetric as that


def sharpened(
    problem: Problem, state: State, schedule: Schedule, unit: float
) -> tuple[Problem, State]:
    """A colder state if both sides turn out to be copies: there the answer is a permutation."""
    is_equal = schedule.is_balanced and problem.shape[0] == problem.shape[1]
    is_equal = is_equal and _has_equal_axes(problem)
    is_warm = schedule.lowest >= _COLD * schedule.critical and state.peak < FINAL_SHARP
    if not is_equal or not is_warm or _mismatch(problem, state) > _NEARLY:
        return problem, state
    coldest = schedule.lowest / _SHARPENING
    colder = resolved(problem, coldest, unit)
    begun = replace(state.like(colder.source.z), epsilon=torch.full_like(state.epsilon, coldest))
    found = _unfolded(colder, begun, schedule)
    if not _is_copy(colder, found, schedule):
        begun = replace(begun, epsilon=(state.epsilon / COOLING).clamp(min=coldest))
        found = cool(colder, begun, replace(schedule, lowest=coldest), is_trial=True)
    return (colder, found) if _is_copy(colder, found, schedule) else (problem, state)


def _has_equal_axes(problem: Problem) -> bool:
    """True if both sides have the same variance on each principal axis, as copies have."""
    first, second = (
        pad(side.mass.double() @ x.double().square(), (0, max(problem.coupling.fixed.shape)))
        for x, side in zip(problem.coordinates, (problem.source, problem.target), strict=True)
    )
    size = max(problem.coupling.fixed.shape)
    return bool((first[:size] - second[:size]).norm() < _EXACT * first.norm())


def _is_copy(problem: Problem, state: State, schedule: Schedule) -> bool:
    """True if the plan has its marginals, and leaves almost no mass unmatched."""
    return bool(state.error < schedule.tol) and _mismatch(problem, state) < _EXACT


def _mismatch(problem: Problem, state: State) -> float:
    """The part of both cost matrices that the plan leaves unmatched: 0 for copies, up to 1."""
    rank, other = problem.coupling.fixed.shape
    x, y = problem.coordinates
    norms = [
        float(second_moments(x, side.mass).norm())
        for x, side in ((x, problem.source), (y, problem.target))
    ]
    matched = float(state.moments[:rank, :other].square().sum())
    return 1 - matched / max(norms[0] * norms[1], 1e-30)


def _unfolded(problem: Problem, state: State, schedule: Schedule) -> State:
    """A single state of a balanced plan, at its temperature, by the potentials of copies."""
    for _ in range(_STEPS):
        state = settle(problem, replace(state, psi=_potentials(problem, state)[1]), _ONE_PASS)
        if float(state.moved) < schedule.tol:
            break
    psi = _evened(problem, state, _EVEN * schedule.tol)
    state = settle(problem, replace(state, psi=psi), _ONE_PASS)
    schedule.note("all points, as copies", state)
    return state


def _potentials(problem: Problem, state: State) -> tuple[Tensor, Tensor]:
    """[N] of the rows and [K] of the columns, in bits times epsilon."""
    left, sizes, right = torch.linalg.svd(problem.coupling.scores(state.moments), False)
    sides = (problem.source.z, left), (problem.target.z, right.mT)
    f, psi = ((z.double() @ (turn * sizes.sqrt())).square().sum(-1) for z, turn in sides)
    return (-0.5 * LOG2E * f).to(state.psi), (-0.5 * LOG2E * psi).to(state.psi)


def _evened(problem: Problem, state: State, tol: float) -> Tensor:
    """Column potentials [K] that meet the marginals, in bits times epsilon.

    The plan is symmetric, so rows and columns share what they miss: half of every step.
    """
    epsilon = state.epsilon.to(state.psi)
    f, psi = (each / epsilon for each in _potentials(problem, state))
    kernel = make_kernel(problem, state)
    f, p = f + kernel.log2_p, kernel.log2_p.exp2()
    before = torch.inf
    for _ in range(_PAIRS):
        row = row_step(kernel, psi, problem.one_pass)
        column = column_step(kernel, f, problem.one_pass)
        missed = float((p * (1 - torch.where(p > 0, f - row, 0).exp2()).abs()).sum())
        f, psi = (f + row) / 2, (psi + column) / 2
        if missed < tol or missed > _SLOW * before:
            break
        before = missed
    return psi * epsilon
