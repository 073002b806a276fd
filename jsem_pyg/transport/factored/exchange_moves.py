"""Exchange moves: swap the partners of matched groups where that lowers the energy.

Descent moves mass a little at a time, and cannot exchange the partners of whole groups, such as two
similar topics. Between a few dozen groups the problem is a quadratic assignment, and many exchanges
are tried at once.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ..problem.problem import FEW_AXES, Problem
from ..problem.swaps import best_assignment
from ..sinkhorn.loop import Pass
from .coarsening import coarsen
from .descent import State, averages

NUM_GROUPS = (20, 25, 30)  # the mistake may be visible in one of these groupings only


class Groups(NamedTuple):
    """Matched groups: the sums of their coordinates, by mass."""

    mass: Tensor  # [m]
    z: Tensor  # [m, R] means of the source
    v: Tensor  # [m, R'] means of the target points that they are sent to


def exchange(problem: Problem, state: State, one_pass: Pass, seed: int) -> list[Tensor]:
    """Moments [R, R'] of plans with exchanged groups, of each exchange that lowers the energy.

    Args:
        problem: the problem.
        state: a single descent.
        one_pass: see :func:`.in_turn`.
        seed: of groups and exchanges.
    """
    if min(problem.coupling.fixed.shape) <= FEW_AXES:
        return []  # in so few dimensions groups are not mistaken for each other
    sent, mass = averages(problem, state, one_pass)
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
