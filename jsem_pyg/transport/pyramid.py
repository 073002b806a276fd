"""From many starts on a few cells to one plan of all points.

A race costs little on a few hundred cells, and tells which starts lead to low energies. The best go
on to more cells, and the best of these to all points: its moments, and its column potentials, say
where the descent among more points begins.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from ..kernels.sinkhorn.reference import sinkhorn_pass as dense_pass
from .cells import quantize
from .descent import Effort, Pass, State, begin, row_vectors, settle
from .ladder import COOLING, race
from .plan import Step
from .problem import Problem
from .starts import Start

logger = logging.getLogger(__name__)

MIDDLE = 800  # cells of the second level
_HOT = (0.3, 0.1)  # temperatures that starts begin at, as shares of the critical one
_WARM = 0.2  # where more cells begin anew
_LIMITED = 0.25  # mean largest share of rows from which on cells, not the temperature, limit a plan
_KEPT = 4  # starts that go on to the second level
_SAME = 1e-3  # relative difference of energies of descents that are the same
_FINAL_SHARP = 0.95  # rows are so sharp that a colder plan would be the same
_RACING = Effort(updates=3)
_FEASIBLE = 0.1  # marginal error of plans whose energies say something

Report = Callable[[Step], None]


@dataclass(frozen=True)
class Schedule:
    """How a problem is worked on."""

    lowest: float  # the temperature asked for
    critical: float  # the one above which all goes everywhere
    tol: float
    coarse: int  # cells of the race
    seed: int
    max_updates: int  # of the moments at the last temperature
    may_stop: bool  # before the lowest temperature, where rows are sharp


def descend(
    problem: Problem, starts: list[Start], schedule: Schedule, one_pass: Pass, report: Report
) -> State:
    """The best plan that the starts lead to."""
    if len(starts) == 1 and starts[0].name == "plan":
        epsilon = starts[0].moments.new_tensor(schedule.lowest)
        state = begin(problem, starts[0].moments, epsilon)
        return _finish(problem, state, schedule, one_pass, report)
    names, states = _first_states(problem, starts, schedule)
    level: Problem | None = None
    for size in sorted({schedule.coarse, max(MIDDLE, schedule.coarse)}):
        if max(problem.shape) > 1.5 * size:
            finer = _in_cells(problem, size, schedule.seed)
            states = _carry(level, finer, states, schedule)
            names, states = _race(finer, names, states, schedule, one_pass, report)
            level = finer
    if level is None:
        level = problem
        names, states = _race(problem, names, states, schedule, one_pass, report)
    best = _carry(level, problem, states.take(slice(0, 1)), schedule).take(0)
    return _finish(problem, best, schedule, one_pass, report)


def _first_states(
    problem: Problem, starts: list[Start], schedule: Schedule
) -> tuple[list[str], State]:
    """Every start at every temperature that a race begins at."""
    moments = torch.stack([start.moments for start in starts for _ in _HOT])
    hot = moments.new_tensor(_HOT).repeat(len(starts)) * schedule.critical
    names = [start.name for start in starts for _ in _HOT]
    return names, begin(problem, moments, hot.clamp(min=schedule.lowest))


def _in_cells(problem: Problem, size: int, seed: int) -> Problem:
    """The problem between cells."""
    x, y = problem.coordinates
    source = quantize(problem.source, x.size(1), size, seed)
    target = quantize(problem.target, y.size(1), size, seed + 1)
    return problem.at(source.side, target.side)


def _race(
    problem: Problem,
    names: list[str],
    states: State,
    schedule: Schedule,
    one_pass: Pass,
    report: Report,
) -> tuple[list[str], State]:
    """The best of the states, after a race."""
    states = race(problem, states, schedule.lowest, one_pass, _RACING)
    names, states = _best_distinct(names, states, _KEPT)
    for index, name in enumerate(names):
        stage = f"{problem.shape[0]} x {problem.shape[1]}, {name}"
        report(_step(stage, states.take(index)))
    return names, states


def _carry(level: Problem | None, finer: Problem, states: State, schedule: Schedule) -> State:
    """States of a level as states of a finer one.

    Where cells have found their partners, they are what limits the plan, and more cells begin
    warmer; their potentials are of no use then. Else the potentials of the finer columns follow
    from the coarser rows.
    """
    if level is finer:
        return states
    if level is None:
        return begin(finer, states.moments, states.epsilon)
    is_limited = states.peak >= _LIMITED
    warm = (_WARM * schedule.critical * torch.ones_like(states.epsilon)).clamp(min=schedule.lowest)
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
        is_sharp = schedule.may_stop and state.peak >= _FINAL_SHARP
        if state.epsilon <= schedule.lowest or is_sharp:
            break
        state = replace(state, epsilon=(state.epsilon / COOLING).clamp(min=schedule.lowest))
    state = settle(problem, state, one_pass, replace(effort, updates=schedule.max_updates))
    report(_step("all points", state))
    return state


def _step(stage: str, state: State) -> Step:
    return Step(
        stage, float(state.epsilon), float(state.energy), float(state.error), float(state.peak)
    )
