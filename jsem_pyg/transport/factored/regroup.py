"""Which groups have been taken for one another: swaps of matched groups that lower the energy.

Descent moves mass a little at a time, and cannot exchange the partners of whole groups, such as two
topics that lie alike. Between a few dozen groups the problem is a quadratic assignment, and many
exchanges are tried at once.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ..problem.problem import FEW_AXES, Problem
from .cells import quantize
from .descent import Pass, State, plan_pass

NUM_GROUPS = (20, 25, 30)  # one may cut the groups where the mistake does, and another not

_TRIES = 256  # at once
_ROUNDS = 4
_SWAPS = 3  # of a kick, at most
_GAIN = 1e-4  # of the objective, below which it is rounding


class Groups(NamedTuple):
    """Matched groups: the sums of their coordinates, by mass."""

    mass: Tensor  # [m]
    z: Tensor  # [m, R] means of the source
    v: Tensor  # [m, R'] means of where the plan takes them


def regroup(problem: Problem, state: State, one_pass: Pass, seed: int) -> list[Tensor]:
    """Moments of the plan with groups exchanged, where an exchange lowers the energy.

    Args:
        problem: the problem.
        state: a single descent.
        one_pass: a `sinkhorn_pass`.
        seed: of groups and exchanges.
    """
    if min(problem.coupling.fixed.shape) <= FEW_AXES:
        return []  # in so few dimensions groups are not taken for one another
    signal = torch.cat([problem.target.z, torch.ones_like(problem.target.z[:, :1])], 1)
    sent = plan_pass(problem, state, signal, one_pass).average.double()
    found = []
    for count in NUM_GROUPS:
        moments = _exchanged(problem, _groups(problem, sent, count, seed), seed)
        if moments is not None:
            found.append(moments)
    return found


def _exchanged(problem: Problem, groups: Groups, seed: int) -> Tensor | None:
    """Moments of a better assignment of groups, or None."""
    coupling = problem.coupling
    rank, other = coupling.fixed.shape
    root = groups.mass.sqrt()[:, None]
    z, v = root * groups.z, root * groups.v
    inner = 2 * coupling.kappa * (z[:, :rank] * coupling.signs[0]) @ z[:, :rank].T
    outer = (v[:, :other] * coupling.signs[1]) @ v[:, :other].T
    # What does not depend on where the others go: linear terms, and moments that are added.
    shift = coupling.linear.clone()
    shift[:rank, :other] += 4 * coupling.kappa * coupling.sign * coupling.fixed
    order = best_assignment(inner, outer, z @ shift @ v.T, seed)
    return None if order is None else z.T @ v[order]


def _groups(problem: Problem, sent: Tensor, num_groups: int, seed: int) -> Groups:
    """Groups of source points, and where a plan takes them.

    Args:
        problem: the problem.
        sent: [N, R' + 1] T V and T 1.
        num_groups: how many.
        seed: of the grouping.
    """
    x, _ = problem.coordinates
    label = quantize(problem.source, x.size(1), num_groups, seed).label
    rows = torch.cat([problem.source.z.double() * sent[:, -1:], sent], 1)
    total = rows.new_zeros(int(label.max()) + 1, rows.size(1)).index_add_(0, label, rows)
    total = total[total[:, -1] > 0]
    mass = total[:, -1]
    means = total[:, :-1] / mass[:, None]
    return Groups(mass, *means.split([problem.source.z.size(1), problem.target.z.size(1)], 1))


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
        tries = _kicked(best, _gains(inner, outer, linear, best[None])[0], generator)
        tries = _climb(inner, outer, linear, tries)
        values = _value(inner, outer, linear, tries)
        top = int(values.argmax())
        if float(values[top]) <= value + _GAIN * abs(start):
            break
        best, value = tries[top], float(values[top])
    return best if value > start + _GAIN * abs(start) else None


def _value(inner: Tensor, outer: Tensor, linear: Tensor, order: Tensor) -> Tensor:
    """The objective [B] of assignments [B, m]."""
    moved = outer[order[:, :, None], order[:, None, :]]
    return (inner * moved).sum((1, 2)) + linear.gather(1, order.T).T.sum(1)


def _gains(inner: Tensor, outer: Tensor, linear: Tensor, order: Tensor) -> Tensor:
    """What swapping a and b would add to the objective: [B, m, m]."""
    moved = outer[order[:, :, None], order[:, None, :]]
    cross = inner @ moved  # sum_k A_ak B'_kb
    own = cross.diagonal(dim1=1, dim2=2)
    total = cross + cross.mT - own[:, :, None] - own[:, None, :]
    # Less the terms of a and b themselves, which do not change as the others do.
    a, b = inner.diagonal(), moved.diagonal(dim1=1, dim2=2)
    unequal = a[:, None] - a
    apart = b[:, :, None] - b[:, None, :]
    first = (a[:, None] - inner) * (moved - b[:, :, None])
    second = (inner - a) * (b[:, None, :] - moved)
    placed = linear.gather(1, order.T).T
    swapped = linear[:, order].transpose(0, 1)
    line = swapped + swapped.mT - placed[:, :, None] - placed[:, None, :]
    return 2 * (total - first - second) - unequal * apart + line


def _kicked(best: Tensor, gain: Tensor, generator: torch.Generator) -> Tensor:
    """Copies of an assignment [B, m] with a few random swaps, rather those that cost little."""
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
    each = torch.arange(order.size(0), device=order.device)
    least = 1e-9 * float((inner.abs().sum() * outer.abs().max()).clamp(min=1e-300))
    for _ in range(4 * order.size(1)):
        gain, swap = _gains(inner, outer, linear, order).flatten(1).max(1)
        better = gain > least
        if not bool(better.any()):
            break
        a, b = swap // order.size(1), swap % order.size(1)
        first, second = order[each, a], order[each, b]
        order = order.clone()
        order[each, a] = torch.where(better, second, first)
        order[each, b] = torch.where(better, first, second)
    return order
