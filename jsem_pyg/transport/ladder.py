"""Down the temperatures: many starts race, and those that came to the same plan go on as one."""

from dataclasses import replace

import torch
from torch import Tensor

from .descent import Effort, Pass, State, settle
from .problem import Problem

COOLING = 1.5  # a step
SHARP = 0.7  # the mean of the rows' largest shares at which cells have found their partners

_SAME = 0.02  # relative difference of the moments of plans that are the same
_FEASIBLE = 0.1  # marginal error of plans whose energies say something
_EFFORT = Effort(updates=3)


def race(
    problem: Problem, waves: list[State], lowest: float, count: int, one_pass: Pass
) -> tuple[State, Tensor]:
    """Cool states until their cells have found their partners, or to the lowest temperature.

    Args:
        problem: between cells, or few points.
        waves: states that begin at one temperature each, the hottest first. Where the ones that
            are on their way reach the temperature of the next wave, it joins them; of all that
            differ, the best go on.
        lowest: the last temperature.
        count: how many go on.
        one_pass: of several plans.

    Returns:
        The states that are left, the best first, and for each its place in all waves, one after
        the other.
    """
    first = 0
    states, place = waves[0].take(slice(0, 0)), torch.empty(0, dtype=torch.int64)
    for wave, following in zip(waves, [*waves[1:], None], strict=True):
        size = wave.epsilon.numel()
        states = _join(states, wave)
        place = torch.cat([place, torch.arange(first, first + size)])
        first += size
        until = lowest if following is None else float(following.epsilon.max())
        states = settle(problem, states, one_pass, _EFFORT)
        states, place = _best(states, place, 2 * count)
        while True:
            going = (states.peak < SHARP) & (states.epsilon > until * (1 + 1e-6))
            if not bool(going.any()):
                break
            cooler = (states.epsilon / COOLING).clamp(min=until)
            states = replace(states, epsilon=torch.where(going, cooler, states.epsilon))
            states = settle(problem, states, one_pass, _EFFORT)
            states, place = _best(states, place, 2 * count)
    return _best(states, place, count)


def best_of(problem: Problem, first: State, second: State, count: int) -> tuple[State, Tensor]:
    """The best states of two races, and their places in both, one after the other."""
    states = _join(first, second)
    return _best(states, torch.arange(states.energy.numel()), count)


def _join(first: State, second: State) -> State:
    fields = State.__dataclass_fields__
    return State(*(torch.cat([getattr(first, name), getattr(second, name)]) for name in fields))


def _best(states: State, place: Tensor, count: int) -> tuple[State, Tensor]:
    """The states of lowest energy; of those that came to the same plan, the best."""
    # What misses its marginals may have any energy: it comes last, the nearest to them first.
    rating = torch.where(states.error < _FEASIBLE, states.energy, 1e30 * states.error)
    moments = states.moments.flatten(1)
    size = moments.norm(dim=1).clamp(min=1e-30)
    chosen: list[int] = []
    for index in rating.argsort(stable=True).tolist():
        apart = (moments[chosen] - moments[index]).norm(dim=1)
        if not bool((apart <= _SAME * size[index]).any()):
            chosen.append(index)
    kept = torch.tensor(chosen[:count])
    return states.take(kept), place[kept]
