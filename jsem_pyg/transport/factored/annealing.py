"""The annealing schedule: many starts on a few cells, cooled, and the best among all points.

Comparing starts costs little between a few hundred cells. At every temperature the states that came
to the same plan are merged, and the best continue; those of lowest energy go on to more cells, and
the best of these to all points, where restarts from its consistent part may improve it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ...kernels.sinkhorn.reference import sinkhorn_pass as dense_pass
from ..plan.plan import Step
from ..problem.problem import Problem
from .coarsening import coarsen
from .consistency import consistent_moments
from .descent import Effort, State, begin, make_kernel, settle
from .starts import Start

MIDDLE = 800  # cells of the second level
COOLING = 1.5  # a step
SHARP = 0.7  # mean largest share of rows from which on a plan between cells is not cooled
FINAL_SHARP = 0.95  # the same between all points: a colder plan would be the same

# Temperatures that starts begin at, and plans of new moments, as shares of the critical one. If
# marginals are not fixed, hot plans leave whole groups out, and forget what the start had found.
_HOT, _WARM = (0.3, 0.3 / COOLING**3), 0.2
_HOT_RELAXED, _WARM_RELAXED = (0.15, 0.15 / COOLING**2), 0.1
_LIMITED = 0.25  # mean largest share of rows from which on cells, not the temperature, limit a plan
_KEPT = 4  # states that go on to the second level
_RACING = Effort(updates=3)
_COOLING = Effort(tol=1e-2, updates=12)  # among all points, before the last temperature
_CLOSE = 0.05  # of the energy: states between cells that are compared among all points
_MANY = 60  # passes, where four lose the mass of columns
_RESTARTED = 0.06  # of the critical temperature: warm enough for points to find new partners
_RESTARTS = 6  # at most
_LOWER = 1e-4  # of the energy: a better plan
_SAME = 0.02  # relative difference of the moments of plans that are the same
_FEASIBLE = 0.1  # marginal error of plans whose energies can be compared
_BARE = 1e-4  # moments of the independent plan, of coordinates whose covariance has the norm one


@dataclass(frozen=True)
class Schedule:
    """Temperatures, and the effort at the last one."""

    lowest: float  # the last temperature
    critical: float  # the one above which the plan is p q^T
    tol: float = 1e-3
    coarse: int = 300  # cells of the first level
    seed: int = 0
    max_updates: int = 20  # of the moments at the last temperature
    may_stop: bool = True  # before the last temperature, where rows are sharp
    is_balanced: bool = True
    report: Callable[[Step], Any] = lambda step: None

    @property
    def hot(self) -> list[float]:
        """The temperatures that starts begin at."""
        shares = _HOT if self.is_balanced else _HOT_RELAXED
        return [max(share * self.critical, self.lowest) for share in shares]

    @property
    def warm(self) -> float:
        """The temperature at which plans of new moments begin."""
        share = _WARM if self.is_balanced else _WARM_RELAXED
        return max(share * self.critical, self.lowest)

    def note(self, stage: str, state: State) -> None:
        """Report a single state."""
        numbers = (state.epsilon, state.energy, state.error, state.peak)
        self.report(Step(stage, *(float(each) for each in numbers)))


def anneal(problem: Problem, starts: list[Start], schedule: Schedule) -> State:
    """The best plan that the starts lead to."""
    level, names, states = _coarse_to_fine(problem, starts, schedule)
    if problem.is_small:  # all starts are cold by now, and can be compared there
        states, names = _best(settle(problem, states, _COOLING), names, 1, problem.has_saddle)
    begun = _finalists(level, problem, names, states, schedule)
    if not schedule.is_balanced:
        # Cells of two sides of which one lacks a part differ so much that the heat starts do better
        # among all points: one for each graph.
        heat = [start.moments for start in starts if start.name == "heat"][::2]
        begun += [begin(problem, each[None], each.new_tensor(schedule.hot[:1])) for each in heat]
    state = _best_of([cool(problem, each.take(0), schedule) for each in begun], problem)
    if problem.is_flat:
        return state  # principal axes have compared all plans that restarts could find
    return restarted(problem, state, schedule)


def restarted(problem: Problem, state: State, schedule: Schedule) -> State:
    """A plan of lower energy, as long as restarts from its consistent part lead to one."""
    epsilon = torch.full_like(state.epsilon, _RESTARTED * schedule.critical)
    for _ in range(_RESTARTS):
        if not state.epsilon < epsilon:
            break  # the plan is as warm as that, and not sharp
        other = begin(problem, consistent_moments(problem, state), epsilon)
        other = cool(problem, other, schedule)
        new, old = (rating(each, problem.has_saddle) for each in (other, state))
        if not new < old - _LOWER * state.energy.abs():
            break
        state = other
    return state


def cool(problem: Problem, state: State, schedule: Schedule, is_trial: bool = False) -> State:
    """Cool a single state to the last temperature, and work on it there until it settles.

    A trial ends where the marginals are missed: at colder temperatures they would be, too.
    """
    sound = state  # the last one that meets the marginals
    while True:
        state = _settled(problem, state, sound, _COOLING)
        sound = state if state.error < _FEASIBLE else sound
        schedule.note("all points", state)
        if is_trial and not state.error < _FEASIBLE:
            return state
        is_sharp = schedule.may_stop and state.peak >= FINAL_SHARP
        if state.epsilon <= schedule.lowest or is_sharp:
            break
        state = replace(state, epsilon=(state.epsilon / COOLING).clamp(min=schedule.lowest))
    effort = Effort(tol=schedule.tol, updates=schedule.max_updates)
    state = _settled(problem, state, sound, effort)
    schedule.note("all points", state)
    return state


def _settled(problem: Problem, state: State, sound: State, effort: Effort) -> State:
    """A single state, settled: from a sound one and by more passes, if it loses its moments.

    Few passes over a sharp plan may send all rows to one column, which have the mean of all rows.
    """
    found = settle(problem, state, effort)
    if problem.has_saddle and is_bare(found) and not is_bare(sound):
        again = replace(sound, epsilon=state.epsilon)
        found = settle(problem, again, replace(effort, passes=_MANY, is_careful=True))
    return found


def rating(states: State, has_saddle: bool) -> Tensor:
    """The energy [S], or if the marginals are missed, a number above all energies.

    The independent plan comes last where it is a saddle, see `Problem.has_saddle`: it meets the
    marginals where sharp plans miss them at first, and its energy is the highest.
    """
    rate = torch.where(states.error < _FEASIBLE, states.energy, 1e30 * states.error)
    return torch.where(is_bare(states), 2e30, rate) if has_saddle else rate


def is_bare(states: State) -> Tensor:
    """[S] whether all moments are zero, as those of the independent plan."""
    return states.moments.flatten(-2).norm(dim=-1) < _BARE


def _best_of(states: list[State], problem: Problem) -> State:
    """The best of single states."""
    return min(states, key=lambda each: float(rating(each, problem.has_saddle)))


def _coarse_to_fine(
    problem: Problem, starts: list[Start], schedule: Schedule
) -> tuple[Problem, list[str], State]:
    """The best states between cells, of one or two levels: the last level, names, states."""
    moments = torch.stack([start.moments for start in starts])
    names = [start.name for start in starts]
    levels = [
        _in_cells(problem, size, schedule.seed)
        for size in sorted({schedule.coarse, max(MIDDLE, schedule.coarse)})
        if max(problem.shape) > 1.5 * size and not problem.is_small
    ] or [problem]
    waves = [
        begin(levels[0], moments, moments.new_full((len(starts),), epsilon))
        for epsilon in schedule.hot
    ]
    states, names = race(levels[0], waves, names * len(waves), schedule)
    for level, finer in pairwise(levels):
        if float(states.peak[0]) < _LIMITED:
            return level, names, states  # the temperature limits the plan: cells change nothing
        wave = _carry(level, finer, states, schedule)
        states, names = race(finer, [wave], names, schedule)
    return levels[-1], names, states


def _in_cells(problem: Problem, size: int, seed: int) -> Problem:
    """The problem between cells."""
    x, y = problem.coordinates
    source = coarsen(problem.source, x.size(1), size, seed)
    target = coarsen(problem.target, y.size(1), size, seed + 1)
    return problem.at(source, target)


def _finalists(
    level: Problem, problem: Problem, names: list[str], states: State, schedule: Schedule
) -> list[State]:
    """The states that are cooled among all points.

    Energies between cells differ less than two coarsenings do. In a space of few dimensions
    different rotations have nearly equal energies: the best of these states is chosen among all
    points. Where there are more dimensions, the state of the heat start goes on beside the best.
    """
    chosen = [0]
    if problem.is_flat and level is not problem:
        closest = states.energy - states.energy[0] <= _CLOSE * states.energy[0].abs()
        chosen = closest.nonzero()[:, 0].tolist()
    elif float(states.peak[0]) >= _LIMITED and "heat" in names[1:] and names[0] != "heat":
        chosen.append(names.index("heat"))
    begun = [
        _carry(level, problem, states.take(slice(index, index + 1)), schedule) for index in chosen
    ]
    if problem.is_flat and len(begun) > 1:
        settled = [settle(problem, each, _COOLING) for each in begun]
        begun = [_best_of(settled, problem)]
    return begun


def _carry(level: Problem, finer: Problem, states: State, schedule: Schedule) -> State:
    """States of a level as states of a finer one.

    If cells limit the plan, more cells begin warmer, and the potentials are of no use. Otherwise
    the potentials of the finer columns follow from the coarser rows.
    """
    if level is finer:
        return states
    is_limited = states.peak >= _LIMITED
    warm = states.epsilon.clamp(min=schedule.warm)
    fresh = begin(finer, states.moments, torch.where(is_limited, warm, states.epsilon))
    if finer.relaxation.mass is not None:
        return fresh
    u, log2_q = make_kernel(level, states).u, finer.target.log2_mass
    columns = dense_pass(finer.target.z, u, states.f, log2_q, u[..., :0])
    known = (columns.f - log2_q) * states.epsilon[..., None].to(columns.f)
    known = torch.where(log2_q > -torch.inf, known, 0)
    return replace(fresh, psi=torch.where(is_limited[:, None], fresh.psi, known))


def race(
    problem: Problem, waves: list[State], names: list[str], schedule: Schedule
) -> tuple[State, list[str]]:
    """Cool states until their plans are sharp, or to the lowest temperature: the best come first.

    Plans of small problems are cooled as far as the one that is returned.

    A wave is states that begin at one temperature, the hottest wave first; it joins the others when
    these reach its temperature. Of states that differ the best continue, and the best of each name.
    """
    states, kept = waves[0].take(slice(0, 0)), list[str]()
    sharp = SHARP
    if problem.is_small:
        sharp = FINAL_SHARP if schedule.may_stop else torch.inf
    for wave, following in zip(waves, [*waves[1:], None], strict=True):
        size = wave.epsilon.numel()
        states, kept = _join(states, wave), kept + names[:size]
        names = names[size:]
        until = schedule.lowest if following is None else float(following.epsilon.max())
        while True:
            states = settle(problem, states, _RACING)
            states, kept = _best(states, kept, 2 * _KEPT, problem.has_saddle)
            is_going = (states.peak < sharp) & (states.epsilon > until * (1 + 1e-6))
            if not bool(is_going.any()):
                break
            cooler = (states.epsilon / COOLING).clamp(min=until)
            states = replace(states, epsilon=torch.where(is_going, cooler, states.epsilon))
    states, kept = _best(states, kept, _KEPT, problem.has_saddle)
    for index, name in enumerate(kept):
        schedule.note(f"{problem.shape[0]} x {problem.shape[1]}, {name}", states.take(index))
    return states, kept


def _join(first: State, second: State) -> State:
    """The states of both."""
    fields = State.__dataclass_fields__
    return State(*(torch.cat([getattr(first, name), getattr(second, name)]) for name in fields))


def _best(states: State, names: list[str], count: int, has_saddle: bool) -> tuple[State, list[str]]:
    """The states of lowest energy, the best of each name; of the same plan, one."""
    chosen = _distinct(states, has_saddle)
    leaders = set({names[index]: index for index in reversed(chosen)}.values())
    others = [index for index in chosen if index not in leaders]
    kept = leaders | set(others[: max(0, count - len(leaders))])
    order = [index for index in chosen if index in kept]
    return states.take(torch.tensor(order)), [names[index] for index in order]


def _distinct(states: State, has_saddle: bool) -> list[int]:
    """The states that differ, those of lowest energy first."""
    order = rating(states, has_saddle).argsort(stable=True).tolist()
    moments = states.moments.flatten(1)
    size = moments.norm(dim=1).clamp(min=1e-30)
    chosen: list[int] = []
    for index in order:
        apart = (moments[chosen] - moments[index]).norm(dim=1)
        if not bool((apart <= _SAME * size[index]).any()):
            chosen.append(index)
    return chosen
