"""Down the temperatures: many starts race, and those that came to the same plan go on as one."""

from dataclasses import replace

import torch
from torch import Tensor

from ..problem.problem import Problem
from .descent import Effort, Pass, State, settle

COOLING = 1.5  # a step
SHARP = 0.7  # the mean of the rows' largest shares at which cells have found their partners

_SAME = 0.02  # relative difference of the moments of plans that are the same
_FEASIBLE = 0.1  # marginal error of plans whose energies say something
_EFFORT = Effort(updates=3)


def race(
    problem: Problem,
    waves: list[State],
    kinds: list[str],
    lowest: float,
    count: int,
    one_pass: Pass,
) -> tuple[State, list[str]]:
    """Cool states until their cells have found their partners, or to the lowest temperature.

    Args:
        problem: between cells, or few points.
        waves: states that begin at one temperature each, the hottest first. Where the ones that
            are on their way reach the temperature of the next wave, it joins them; of all that
            differ, the best go on, and the best of each kind.
        kinds: of all states, wave after wave.
        lowest: the last temperature.
        count: how many go on, at least one of each kind.
        one_pass: of several plans.

    Returns:
        The states that are left, the best first, and their kinds.
    """
    states, names = waves[0].take(slice(0, 0)), list[str]()
    for wave, following in zip(waves, [*waves[1:], None], strict=True):
        size = wave.epsilon.numel()
        states, names = join(states, wave), names + kinds[:size]
        kinds = kinds[size:]
        until = lowest if following is None else float(following.epsilon.max())
        states = settle(problem, states, one_pass, _EFFORT)
        states, names = best(states, names, 2 * count)
        while True:
            going = (states.peak < SHARP) & (states.epsilon > until * (1 + 1e-6))
            if not bool(going.any()):
                break
            cooler = (states.epsilon / COOLING).clamp(min=until)
            states = replace(states, epsilon=torch.where(going, cooler, states.epsilon))
            states = settle(problem, states, one_pass, _EFFORT)
            states, names = best(states, names, 2 * count)
    return best(states, names, count)


def join(first: State, second: State) -> State:
    """The states of both."""
    fields = State.__dataclass_fields__
    return State(*(torch.cat([getattr(first, name), getattr(second, name)]) for name in fields))


def best(states: State, kinds: list[str], count: int) -> tuple[State, list[str]]:
    """The states of lowest energy, and those of each kind; of the same plan, one."""
    chosen = _distinct(states)
    leaders = set({kinds[index]: index for index in reversed(chosen)}.values())
    others = [index for index in chosen if index not in leaders]
    kept = leaders | set(others[: max(0, count - len(leaders))])
    order = [index for index in chosen if index in kept]
    return states.take(torch.tensor(order)), [kinds[index] for index in order]


def rating(states: State) -> Tensor:
    """What states are compared by [S]: the lower, the better.

    What misses its marginals may have any energy: it comes last, the nearest to them first.
    """
    return torch.where(states.error < _FEASIBLE, states.energy, 1e30 * states.error)


def _distinct(states: State) -> list[int]:
    """Which states differ, those of lowest energy first."""
    order = rating(states).argsort(stable=True).tolist()
    moments = states.moments.flatten(1)
    size = moments.norm(dim=1).clamp(min=1e-30)
    chosen: list[int] = []
    for index in order:
        apart = (moments[chosen] - moments[index]).norm(dim=1)
        if not bool((apart <= _SAME * size[index]).any()):
            chosen.append(index)
    return chosen
