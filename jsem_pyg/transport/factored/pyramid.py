"""From many starts on a few cells to one plan of all points.

A race costs little on a few hundred cells, and tells which starts lead to low energies. The best go
on to more cells, and the best of these to all points: its moments, and its column potentials, say
where the descent among more points begins.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from ...kernels.sinkhorn.reference import sinkhorn_pass as dense_pass
from ..plan.plan import Step
from ..problem.problem import FEW_AXES, Problem
from .cells import quantize
from .consensus import consensus
from .descent import Effort, Pass, State, begin, row_vectors, settle
from .ladder import COOLING, best, join, race, rating
from .regroup import regroup
from .starts import Start

MIDDLE = 800  # cells of the second level
# Temperatures that starts begin at, as shares of the critical one, and where more cells begin anew.
# Without fixed marginals, hot plans leave whole groups out, and forget what the start knew of them.
_HOT, _WARM = (0.3, 0.3 / COOLING**3), 0.2
_HOT_RELAXED, _WARM_RELAXED = (0.15, 0.15 / COOLING**2), 0.1
_LIMITED = 0.25  # mean largest share of rows from which on cells, not the temperature, limit a plan
_KEPT = 4  # starts that go on to the second level
_COOLING = Effort(tol=1e-2, updates=12)  # among all points, before the last temperature
_EXCHANGES = 3  # of groups, one after the other
_REHEATED = 0.06  # of the critical temperature: warm enough for points to find new partners
_REHEATS = 6  # at most
_LOWER = 1e-4  # of the energy: a better plan
_FINAL_SHARP = 0.95  # rows are so sharp that a colder plan would be the same

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
    is_balanced: bool

    @property
    def hot(self) -> list[float]:
        """The temperatures that starts begin at."""
        shares = _HOT if self.is_balanced else _HOT_RELAXED
        return [max(share * self.critical, self.lowest) for share in shares]

    @property
    def warm(self) -> float:
        """Where plans of new moments begin."""
        share = _WARM if self.is_balanced else _WARM_RELAXED
        return max(share * self.critical, self.lowest)


def descend(
    problem: Problem, starts: list[Start], schedule: Schedule, one_pass: Pass, report: Report
) -> State:
    """The best plan that the starts lead to."""
    names, waves = _first_waves(problem, starts, schedule)
    level: Problem | None = None
    for size in sorted({schedule.coarse, max(MIDDLE, schedule.coarse)}):
        if max(problem.shape) > 1.5 * size:
            if level is not None and float(waves[0].peak[0]) < _LIMITED:
                break  # the temperature is what limits the plan: more cells would say the same
            finer = _in_cells(problem, size, schedule.seed)
            if level is not None:
                waves = [_carry(level, finer, waves[0], schedule)]
            level = finer
            names, waves = _race(finer, names, waves, schedule, one_pass, report)
    if level is None:
        level = problem
        names, waves = _race(problem, names, waves, schedule, one_pass, report)
    states = waves[0]
    begun = _finalists(level, problem, names, states, schedule)
    if not schedule.is_balanced:
        begun += _direct(problem, starts, schedule)
    finals = [_finish(problem, each.take(0), schedule, one_pass, report) for each in begun]
    state = min(finals, key=lambda each: float(rating(each)))
    state = _regrouped(problem, state, schedule, one_pass, report)
    return _reheated(problem, state, schedule, one_pass, report)


def _finalists(
    level: Problem, problem: Problem, names: list[str], states: State, schedule: Schedule
) -> list[State]:
    """The best state, and that of the heat start: among all points.

    Between few cells, cut differently on both sides, energies differ less than cells do.
    """
    chosen = [0]
    if float(states.peak[0]) >= _LIMITED and "heat" in names[1:] and names[0] != "heat":
        chosen.append(names.index("heat"))
    return [
        _carry(level, problem, states.take(slice(index, index + 1)), schedule) for index in chosen
    ]


def _direct(problem: Problem, starts: list[Start], schedule: Schedule) -> list[State]:
    """The heat starts themselves, among all points.

    Cells of two sides of which one lacks a part are cut so differently that their race forgets more
    than it finds.
    """
    heat = [start.moments for start in starts if start.name == "heat"][::2]  # one of each graph
    return [begin(problem, each[None], each.new_tensor([schedule.hot[0]])) for each in heat]


def _regrouped(
    problem: Problem, state: State, schedule: Schedule, one_pass: Pass, report: Report
) -> State:
    """A plan of lower energy, as long as exchanging groups leads to one."""
    for _ in range(_EXCHANGES):
        moments = regroup(problem, state, one_pass, schedule.seed)
        if not moments:
            break
        epsilon = state.epsilon.clamp(min=schedule.warm)
        other = begin(problem, moments[0], epsilon)
        other = _finish(problem, other, schedule, one_pass, report)
        if not rating(other) < rating(state) - _LOWER * state.energy.abs():
            break
        state = other
    return state


def _reheated(
    problem: Problem, state: State, schedule: Schedule, one_pass: Pass, report: Report
) -> State:
    """A plan of lower energy, as long as the part that agrees with itself leads to one."""
    if min(problem.coupling.fixed.shape) <= FEW_AXES:
        return state  # in so few dimensions everything agrees
    epsilon = torch.full_like(state.epsilon, _REHEATED * schedule.critical)
    for _ in range(_REHEATS):
        if not state.epsilon < epsilon:
            break  # the plan is as warm as that, and not sharp
        other = begin(problem, consensus(problem, state, one_pass), epsilon)
        other = _finish(problem, other, schedule, one_pass, report)
        if not rating(other) < rating(state) - _LOWER * state.energy.abs():
            break
        state = other
    return state


def _first_waves(
    problem: Problem, starts: list[Start], schedule: Schedule
) -> tuple[list[str], list[State]]:
    """All starts at every temperature that a race begins at, and their names."""
    moments = torch.stack([start.moments for start in starts])
    waves = [
        begin(problem, moments, moments.new_full((len(starts),), epsilon))
        for epsilon in schedule.hot
    ]
    return [start.name for start in starts] * len(waves), waves


def _in_cells(problem: Problem, size: int, seed: int) -> Problem:
    """The problem between cells."""
    x, y = problem.coordinates
    source = quantize(problem.source, x.size(1), size, seed)
    target = quantize(problem.target, y.size(1), size, seed + 1)
    return problem.at(source.side, target.side)


def _race(
    problem: Problem,
    names: list[str],
    waves: list[State],
    schedule: Schedule,
    one_pass: Pass,
    report: Report,
) -> tuple[list[str], list[State]]:
    """The best of the states, after a race."""
    waves = [_fitted(problem, wave) for wave in waves]
    states, names = race(problem, waves, names, schedule.lowest, _KEPT, one_pass)
    for _ in range(_EXCHANGES):
        moments = [
            each
            for index in range(len(names))
            for each in regroup(problem, states.take(index), one_pass, schedule.seed)
        ]
        if not moments:
            break
        before = float(states.energy[0])
        warm = states.epsilon.new_full((len(moments),), schedule.warm)
        wave = begin(problem, torch.stack(moments), warm)
        kinds = ["exchanged"] * len(moments)
        others, kinds = race(problem, [wave], kinds, schedule.lowest, _KEPT, one_pass)
        states, names = best(join(states, others), names + kinds, _KEPT)
        if not float(states.energy[0]) < before - _LOWER * abs(before):
            break
    for index, name in enumerate(names):
        stage = f"{problem.shape[0]} x {problem.shape[1]}, {name}"
        report(_step(stage, states.take(index)))
    return names, [states]


def _fitted(problem: Problem, state: State) -> State:
    """A state with room for the points of a problem."""
    if state.psi.size(-1) == problem.shape[1] and state.f.size(-1) == problem.shape[0]:
        return state
    return begin(problem, state.moments, state.epsilon)


def _carry(level: Problem, finer: Problem, states: State, schedule: Schedule) -> State:
    """States of a level as states of a finer one.

    Where cells have found their partners, they are what limits the plan, and more cells begin
    warmer; their potentials are of no use then. Else the potentials of the finer columns follow
    from the coarser rows.
    """
    if level is finer:
        return states
    is_limited = states.peak >= _LIMITED
    warm = states.epsilon.clamp(min=schedule.warm)
    epsilon = torch.where(is_limited, warm, states.epsilon)
    fresh = begin(finer, states.moments, epsilon)
    u = row_vectors(level, states.moments, states.epsilon)
    columns = dense_pass(finer.target.z, u, states.f, finer.target.log2_mass, u[..., :0])
    known = (columns.f - finer.target.log2_mass) * states.epsilon[..., None].to(columns.f)
    known = torch.where(finer.target.log2_mass > -torch.inf, known, 0)
    return replace(fresh, psi=torch.where(is_limited[:, None], fresh.psi, known))


def _finish(
    problem: Problem, state: State, schedule: Schedule, one_pass: Pass, report: Report
) -> State:
    """Down to the last temperature among all points, and there until it settles."""
    while True:
        state = settle(problem, state, one_pass, _COOLING)
        report(_step("all points", state))
        is_sharp = schedule.may_stop and state.peak >= _FINAL_SHARP
        if state.epsilon <= schedule.lowest or is_sharp:
            break
        state = replace(state, epsilon=(state.epsilon / COOLING).clamp(min=schedule.lowest))
    effort = Effort(tol=schedule.tol, updates=schedule.max_updates)
    state = settle(problem, state, one_pass, effort)
    report(_step("all points", state))
    return state


def _step(stage: str, state: State) -> Step:
    return Step(
        stage, float(state.epsilon), float(state.energy), float(state.error), float(state.peak)
    )
