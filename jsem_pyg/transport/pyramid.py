"""From many starts on a few cells to one plan of all points.

A race costs little on a few hundred cells, and tells which starts lead to low energies. The best go
on to more cells, and the best of these to all points: its moments, and its column potentials, say
where the descent among more points begins.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..kernels.sinkhorn.reference import sinkhorn_pass as dense_pass
from .cells import Cells, quantize
from .descent import Effort, Pass, State, begin, column_potential, in_turn, row_vectors, settle
from .ladder import COOLING, SHARP, race
from .plan import Step
from .problem import Problem
from .starts import Start

logger = logging.getLogger(__name__)

MIDDLE = 800  # cells of the second level
_HOT = (0.3, 0.1)  # temperatures that starts begin at, as shares of the critical one
_WARM = 0.2  # where more cells begin anew
_KEPT = 4  # starts that go on to the second level
_SAME = 1e-3  # relative difference of energies of descents that are the same
_FINAL_SHARP = 0.95  # rows are so sharp that a colder plan would be the same
_RACING = Effort(updates=3)
_FEASIBLE = 0.1  # marginal error of plans whose energies say something

Report = Callable[[Step], None]


@dataclass(frozen=True)
class Schedule:
    """How a problem is worked on."""

    lowest: float  # the temperature asked for, absolute
    tol: float
    coarse: int
    seed: int
    max_updates: int = 20  # of the moments at the last temperature


def descend(
    problem: Problem, starts: list[Start], schedule: Schedule, one_pass: Pass, report: Report
) -> tuple[Problem, State]:
    """The best plan that the starts lead to."""
    critical = max(problem.critical_epsilon(), schedule.lowest)
    states = _first_states(problem, starts, critical, schedule)
    names = [start.name for start in starts for _ in _HOT]
    sizes = [schedule.coarse, MIDDLE]
    level: Problem | None = None
    for size in sizes:
        cells = _cells(problem, size, schedule.seed)
        if cells is None:
            break
        finer = problem.at(cells[0].side, cells[1].side)
        states = _carry(level, finer, states, critical, schedule)
        states = race(finer, states, schedule.lowest, in_turn(one_pass), _RACING)
        names, states = _best_distinct(names, states, _KEPT)
        level = finer
        for name, index in zip(names, range(len(names))):
            report(_step(f"{size} cells, {name}", states.take(index)))
        if len(names) > 1 and size == sizes[-1]:
            break
    if level is None and len(names) > 1:
        states = race(problem, states, schedule.lowest, in_turn(one_pass), _RACING)
        names, states = _best_distinct(names, states, 1)
        return problem, states.take(0)
    best = states.take(slice(0, 1))
    return problem, _finish(
        problem, _carry(level, problem, best, critical, schedule).take(0), schedule, one_pass, report
    )


def _first_states(
    problem: Problem, starts: list[Start], critical: float, schedule: Schedule
) -> State:
    moments = torch.stack([start.moments for start in starts for _ in _HOT])
    hot = moments.new_tensor(_HOT).repeat(len(starts)) * critical
    return begin(problem, moments, hot.clamp(min=schedule.lowest))


def _cells(problem: Problem, size: int, seed: int) -> tuple[Cells, Cells] | None:
    """Both sides in cells, or None where that would not make them much fewer."""
    if min(problem.shape) <= 1.5 * size:
        return None
    rank, other = problem.coupling.fixed.shape
    return (
        quantize(problem.source, rank, size, seed),
        quantize(problem.target, other, size, seed + 1),
    )


def _carry(
    level: Problem | None, finer: Problem, states: State, critical: float, schedule: Schedule
) -> State:
    """States of a level as states of a finer one.

    Where cells have found their partners, they are what limits the plan, and more cells begin
    warmer; their potentials are of no use then. Else the potentials of the finer columns follow
    from the coarser rows.
    """
    if level is None:
        return begin(finer, states.moments, states.epsilon)
    is_limited = states.peak >= SHARP
    warm = (_WARM * critical * torch.ones_like(states.epsilon)).clamp(min=schedule.lowest)
    epsilon = torch.where(is_limited, torch.maximum(warm, states.epsilon), states.epsilon)
    fresh = begin(finer, states.moments, epsilon)
    u = row_vectors(level, states.moments, states.epsilon)
    columns = dense_pass(finer.target.z, u, states.f, finer.target.log2_mass, u[..., :0])
    known = (columns.f - finer.target.log2_mass) * states.epsilon[..., None].to(columns.f)
    known = torch.where(finer.target.log2_mass > -torch.inf, known, 0)
    return replace(fresh, psi=torch.where(is_limited[:, None], fresh.psi, known))


def _best_distinct(names: list[str], states: State, count: int) -> tuple[list[str], State]:
    """The states of lowest energy; of those that came to the same, one."""
    chosen: list[int] = []
    # What misses its marginals may have any energy: it comes last, the nearest to them first.
    energy_or_error = torch.where(states.error < _FEASIBLE, states.energy, 1e30 * states.error)
    order = energy_or_error.argsort(stable=True).tolist()
    for index in order:
        energy = float(states.energy[index])
        same = any(
            abs(energy - float(states.energy[each])) <= _SAME * abs(energy) for each in chosen
        )
        if not same:
            chosen.append(index)
    chosen = chosen[:count]
    return [names[index] for index in chosen], states.take(torch.tensor(chosen))


def _finish(
    problem: Problem, state: State, schedule: Schedule, one_pass: Pass, report: Report
) -> State:
    """Down to the last temperature among all points, and there until it settles."""
    effort = Effort(tol=schedule.tol)
    while True:
        state = settle(problem, state, one_pass, effort)
        report(_step("all points", state))
        if state.epsilon <= schedule.lowest or state.peak >= _FINAL_SHARP:
            break
        state = replace(state, epsilon=(state.epsilon / COOLING).clamp(min=schedule.lowest))
    state = settle(problem, state, one_pass, replace(effort, updates=schedule.max_updates))
    report(_step("all points, settled", state))
    return state


def _step(stage: str, state: State) -> Step:
    return Step(
        stage, float(state.epsilon), float(state.energy), float(state.error), float(state.peak)
    )
