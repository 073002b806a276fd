r"""Exchange moves: swap the partners of matched groups where that lowers the energy.

Descent moves mass a little at a time, and cannot exchange the partners of whole groups, such as two
similar topics. Between a few dozen groups it is a quadratic assignment problem,
:math:`f(m) = \sum_{ab} A_{ab} B_{m_a m_b} + \sum_a L_{a m_a}`: many exchanges are tried at once.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ..problem.problem import Problem
from .coarsening import coarsen
from .descent import State, averages

NUM_GROUPS = (20, 25, 30)  # the mistake may be visible in one of these groupings only
_TRIES = 256  # at once
_ROUNDS = 4
_SWAPS = 3  # random ones, at most
_GAIN = 1e-4  # of the objective, below which it is rounding


class Groups(NamedTuple):
    """Matched groups: the sums of their coordinates, by mass."""

    mass: Tensor  # [m]
    z: Tensor  # [m, R] means of the source
    v: Tensor  # [m, R'] means of the target points that they are sent to


def exchange(problem: Problem, state: State, seed: int) -> list[Tensor]:
    """Moments [R, R'] of plans with exchanged groups, of each exchange that lowers the energy.

    Args:
        problem: the problem.
        state: a single descent.
        seed: of groups and exchanges.
    """
    if problem.is_flat:
        return []  # in so few dimensions groups are not mistaken for each other
    sent, mass = averages(problem, state)
    groups = (_groups(problem, sent, mass, count, seed) for count in NUM_GROUPS)
    found = (_exchanged(problem, each, seed) for each in groups)
    return [moments for moments in found if moments is not None]


def _exchanged(problem: Problem, groups: Groups, seed: int) -> Tensor | None:
    """Moments of a better assignment of groups, or None."""
    coupling = problem.coupling
    rank, other = coupling.fixed.shape
    root = groups.mass.sqrt()[:, None]
    z, v = root * groups.z, root * groups.v
    inner = 2 * coupling.kappa * (z[:, :rank] * coupling.signs[0]) @ z[:, :rank].T
    outer = (v[:, :other] * coupling.signs[1]) @ v[:, :other].T
    # Terms that do not depend on the partners of other groups.
    shift = coupling.linear.clone()
    shift[:rank, :other] += 4 * coupling.kappa * coupling.sign * coupling.fixed
    order = best_assignment(inner, outer, z @ shift @ v.T, seed)
    return None if order is None else z.T @ v[order]


def _groups(problem: Problem, sent: Tensor, mass: Tensor, num_groups: int, seed: int) -> Groups:
    """Groups of source points, from T V [N, R'] and T 1 [N]."""
    x, _ = problem.coordinates
    label = coarsen(problem.source, x.size(1), num_groups, seed).label
    mass = mass[:, None]
    rows = torch.cat([problem.source.z.double() * mass, sent, mass], 1)
    total = rows.new_zeros(int(label.max()) + 1, rows.size(1)).index_add_(0, label, rows)
    total = total[total[:, -1] > 0]
    means = total[:, :-1] / total[:, -1:]
    return Groups(
        total[:, -1], *means.split([problem.source.z.size(1), problem.target.z.size(1)], 1)
    )


def best_assignment(inner: Tensor, outer: Tensor, linear: Tensor, seed: int) -> Tensor | None:
    """An assignment [m] better than the identity for sum A_ab B_(o_a o_b) + sum L_(a o_a), or None.

    Iterated local search: from the best so far, a few swaps that cost little, and then the steepest
    ascent by swaps, for many at once.

    Args:
        inner: A [m, m], symmetric.
        outer: B [m, m], symmetric.
        linear: L [m, m].
        seed: of the swaps.
    """
    generator = torch.Generator().manual_seed(seed)
    count = inner.size(0)
    if count < 3:
        return None
    best = torch.arange(count, device=inner.device)
    start = value = float(_value(inner, outer, linear, best[None])[0])
    for _ in range(_ROUNDS):
        tries = _perturbed(best, swap_gains(inner, outer, linear, best[None])[0], generator)
        tries = _climb(inner, outer, linear, tries)
        values = _value(inner, outer, linear, tries)
        top = int(values.argmax())
        if float(values[top]) <= value + _GAIN * abs(start):
            break
        best, value = tries[top], float(values[top])
    return best if value > start + _GAIN * abs(start) else None


def _value(inner: Tensor, outer: Tensor, linear: Tensor, order: Tensor) -> Tensor:
    """The objective [B] of assignments [B, m]."""
    return (inner * _moved(outer, order)).sum((1, 2)) + linear.gather(1, order.T).T.sum(1)


def _moved(outer: Tensor, order: Tensor) -> Tensor:
    """B' [B, m, m] of assignments [B, m]."""
    return outer.take(order[:, :, None] * outer.size(1) + order[:, None, :])


def swap_gains(inner: Tensor, outer: Tensor, linear: Tensor, order: Tensor) -> Tensor:
    """Change of the objective if a and b are swapped: [B, m, m]."""
    moved = _moved(outer, order)
    half = inner @ moved  # sum_k A_ak B'_kb; the change is the sum of this half and its transpose
    a, b = inner.diagonal(), moved.diagonal(dim1=1, dim2=2)
    placed = linear.gather(1, order.T).T
    same = half.diagonal(dim1=1, dim2=2) - a * b / 2 + placed / 2  # without a swap
    # The terms of a and b themselves, which do not change as the others do.
    half.addcmul_(inner - a[:, None], moved).addcmul_(inner, b[:, :, None], value=-1)
    half.addcmul_(a[:, None], b[:, None, :], value=0.5).sub_(same[:, :, None])
    half.mul_(2).add_(linear[:, order].transpose(0, 1))
    return half + half.mT


def _perturbed(best: Tensor, gain: Tensor, generator: torch.Generator) -> Tensor:
    """Copies [B, m] of an assignment with a few random swaps, preferably ones that cost little."""
    count = best.numel()
    row, column = torch.triu_indices(count, count, 1)
    cost = -gain[row, column].cpu()
    chance = torch.softmax(-cost / cost.median().clamp(min=1e-300) * 4, 0)
    tries = best.cpu().repeat(_TRIES, 1)
    chosen = torch.multinomial(chance, _TRIES * _SWAPS, True, generator=generator)
    number = torch.randint(1, _SWAPS + 1, (_TRIES,), generator=generator)
    each = torch.arange(_TRIES)
    for index, swap in enumerate(chosen.view(_SWAPS, _TRIES)):
        a, b = row[swap], column[swap]
        does = number > index
        first, second = tries[each, a], tries[each, b]
        tries[each, a] = torch.where(does, second, first)
        tries[each, b] = torch.where(does, first, second)
    return tries.to(best.device)


def _climb(inner: Tensor, outer: Tensor, linear: Tensor, order: Tensor) -> Tensor:
    """The best swap of each assignment, until none is better."""
    order = order.clone()
    climbs = torch.arange(order.size(0), device=order.device)
    least = 1e-9 * float((inner.abs().sum() * outer.abs().max()).clamp(min=1e-300))
    for _ in range(4 * order.size(1)):
        gain, swap = swap_gains(inner, outer, linear, order[climbs]).flatten(1).max(1)
        better = gain > least
        climbs, swap = climbs[better], swap[better]
        if not len(climbs):
            break
        a, b = swap // order.size(1), swap % order.size(1)
        order[climbs, a], order[climbs, b] = order[climbs, b], order[climbs, a]
    return order
