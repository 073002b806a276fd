"""Race: all starts are cooled between a few hundred cells, and the best go on to more.

Comparing starts costs little between a few hundred cells. At every temperature the plans that came
to be the same are merged, and the best continue; the plans of lowest energy go on to more cells,
and the best of these are the candidates among all points.
"""

from dataclasses import fields, replace
from itertools import pairwise

import torch

from ...kernels.sinkhorn.torch_rows import sinkhorn_pass as dense_pass
from ..problem.problem import Problem
from .coarsening import in_cells
from .descent import COOLING, Budget, State, begin, make_kernel, score, settle
from .schedule import SCHEDULE, Run
from .small import race_small
from .starts import Start

_RACING = Budget(updates=SCHEDULE.race_updates)


def race(problem: Problem, starts: list[Start], run: Run) -> list[State]:
    """Find the plans to cool among all points, as single states.

    Energies between cells differ less than two coarsenings do. In a space of few dimensions
    different rotations have nearly equal energies: the best of these states is chosen among all
    points. In more dimensions, the state of the heat start goes on as well as the best.
    """
    hot = [max(share * run.critical, run.lowest) for share in SCHEDULE.hot]
    if problem.is_small:
        moments = torch.stack([start.moments for start in starts])
        epsilon = moments.new_tensor(hot).repeat_interleave(len(starts))
        return [race_small(problem, moments.repeat(len(hot), 1, 1), epsilon, run)]
    level, names, states = _coarse_to_fine(problem, starts, hot, run)
    chosen, is_limited = [0], float(states.sharpness[0]) >= SCHEDULE.limited
    if problem.has_few_axes and level is not problem:
        closest = states.energy - states.energy[0] <= SCHEDULE.close * states.energy[0].abs()
        chosen = closest.nonzero()[:, 0].tolist()
    elif is_limited and "heat" in names[1:] and names[0] != "heat":
        chosen.append(names.index("heat"))
    found = [_carry(level, problem, states.take(slice(at, at + 1)), run) for at in chosen]
    if problem.has_few_axes and len(found) > 1:
        settled = [settle(problem, each, COOLING) for each in found]
        found = [min(settled, key=lambda each: float(score(problem, each)))]
    return [each.take(0) for each in found]


def _coarse_to_fine(
    problem: Problem, starts: list[Start], hot: list[float], run: Run
) -> tuple[Problem, list[str], State]:
    """Find the best states between cells, of one or two levels: the last level, names, states."""
    levels = [
        in_cells(problem, size, run.seed)
        for size in (SCHEDULE.coarse, SCHEDULE.middle)
        if max(problem.shape) > 1.5 * size
    ] or [problem]
    states, names = race_at(levels[0], starts, hot, run)
    for level, finer in pairwise(levels):
        if float(states.sharpness[0]) < SCHEDULE.limited:
            return level, names, states  # the temperature limits the plan: cells change nothing
        states, names = _cooled(finer, [_carry(level, finer, states, run)], names, run)
    return levels[-1], names, states


def _carry(level: Problem, finer: Problem, states: State, run: Run) -> State:
    """Turn states of a level into states of a finer one.

    If cells limit the plan, more cells begin warmer, and the potentials are of no use. Otherwise
    the potentials of the finer columns follow from the coarser rows.
    """
    if level is finer:
        return states
    is_limited = states.sharpness >= SCHEDULE.limited
    warmer = states.epsilon.clamp(min=SCHEDULE.warm * run.critical)
    fresh = begin(finer, states.moments, torch.where(is_limited, warmer, states.epsilon))
    u, log2_q = make_kernel(level, states).u, finer.target.log2_mass
    columns = dense_pass(finer.target.z, u, states.f, log2_q, u[..., :0])
    known = (columns.f - log2_q) * states.epsilon[..., None].to(columns.f)
    known = torch.where(log2_q > -torch.inf, known, 0)
    return replace(fresh, psi=torch.where(is_limited[:, None], fresh.psi, known))


def race_at(
    level: Problem, starts: list[Start], temperatures: list[float], run: Run
) -> tuple[State, list[str]]:
    """Find the best states, and their names, by cooling starts from some temperatures on.

    Plans of small problems are cooled as far as the one that is returned, others until they are
    sharp.
    """
    moments = torch.stack([start.moments for start in starts])
    batches = [
        begin(level, moments, moments.new_full((len(starts),), epsilon)) for epsilon in temperatures
    ]
    return _cooled(level, batches, [start.name for start in starts] * len(batches), run)


def _cooled(
    level: Problem, batches: list[State], names: list[str], run: Run
) -> tuple[State, list[str]]:
    """Bring states to the last temperature; a batch joins the others at its own temperature."""
    states, kept = batches[0].take(slice(0, 0)), list[str]()
    following = [float(batch.epsilon.max()) for batch in batches[1:]]
    for batch, until in zip(batches, [*following, run.lowest], strict=True):
        size = batch.epsilon.numel()
        states, kept = _join(states, batch), kept + names[:size]
        names = names[size:]
        while True:
            states = settle(level, states, _RACING)
            states, kept = _best(level, states, kept, 2 * SCHEDULE.kept)
            is_going = (states.sharpness < SCHEDULE.sharp) & (states.epsilon > until * (1 + 1e-6))
            if not bool(is_going.any()):
                break
            cooler = (states.epsilon / SCHEDULE.cooling).clamp(min=until)
            states = replace(states, epsilon=torch.where(is_going, cooler, states.epsilon))
    states, kept = _best(level, states, kept, SCHEDULE.kept)
    for index, name in enumerate(kept):
        stage = f"{level.shape[0]} x {level.shape[1]}, {name}"
        run.report(states.take(index).step(stage))
    return states, kept


def _join(first: State, second: State) -> State:
    names = [field.name for field in fields(State)]
    return State(*(torch.cat([getattr(first, name), getattr(second, name)]) for name in names))


def _best(problem: Problem, states: State, names: list[str], count: int) -> tuple[State, list[str]]:
    """Keep the states of lowest energy, the best of each name; of the same plan, one."""
    chosen = _distinct(problem, states)
    leaders = set({names[index]: index for index in reversed(chosen)}.values())
    others = [index for index in chosen if index not in leaders]
    kept = leaders | set(others[: max(0, count - len(leaders))])
    order = [index for index in chosen if index in kept]
    return states.take(torch.tensor(order)), [names[index] for index in order]


def _distinct(problem: Problem, states: State) -> list[int]:
    """Find the states that differ, the lowest energy first."""
    order = score(problem, states).argsort(stable=True).tolist()
    moments = states.moments.flatten(1)
    size = moments.norm(dim=1).clamp(min=1e-30)
    chosen: list[int] = []
    for index in order:
        apart = (moments[chosen] - moments[index]).norm(dim=1)
        if not bool((apart <= SCHEDULE.same * size[index]).any()):
            chosen.append(index)
    return chosen
