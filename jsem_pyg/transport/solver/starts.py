"""Starts of a descent: moments of rough plans between both sides.

From the independent plan, descent ends in the wrong optimum on most real data. So several starts
are compared, each made of something that neither an order of the points nor an isometry changes.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from ..._random import seeded
from ...neighbors import knn_graph
from ..costs.factor import Factor
from ..problem.options import STARTS
from ..problem.problem import FEW_AXES, LOG2E, Problem, Side
from ..profiles import comparable, heat_profiles
from ..sinkhorn.loop import Kernel, sinkhorn
from .schedule import SCHEDULE


class Cloud(NamedTuple):
    """One side's points for neighbour graphs."""

    x: Tensor  # [N, D] where neighbours are found
    metric: str
    edge_index: Tensor | None  # [2, E]; None: neighbours in x


def points_of(factor: Factor) -> Cloud:
    """Take the points of a factor, and its edges."""
    # A kernel compares directions, which a point at the origin has not.
    has_directions = factor.kind == "kernel" and bool((factor.x != 0).any(1).all())
    return Cloud(factor.x, "cosine" if has_directions else "l2", factor.edge_index)


class Start(NamedTuple):
    """Moments that a descent begins with."""

    name: str
    moments: Tensor  # [R, R'] float64


def find_starts(
    names: tuple[str, ...] | None, problem: Problem, points: tuple[Cloud, Cloud], seed: int
) -> list[Start]:
    """Find the starts of some names of :data:`STARTS`; None: those that pay for the rank.

    Raises a ValueError if there is none that a descent could leave.
    """
    if names is None:
        names = tuple(name for name in STARTS if name != "heat" or not problem.has_few_axes)
    generator = seeded(seed)
    found: list[Start] = []
    nothing = torch.zeros_like(problem.coupling.linear)
    for name in names:
        if name == "zero" and bool(problem.coupling.scores(nothing).any()):
            found.append(Start("zero", nothing))
        elif name == "axes":
            found += [Start("axes", moments) for moments in _axes(problem)]
        elif name == "costs":
            found += [Start("costs", each) for each in _costs(problem, generator)]
        elif name == "heat":
            found += [Start("heat", each) for each in _heat(problem, points, generator)]
    if not found:
        raise ValueError(
            "Expected 'starts' to have more than 'zero' (got it alone): the independent plan of "
            "centred kernels is a saddle point, which no descent leaves. To fix this, add 'axes', "
            "or leave 'starts' out."
        )
    return found


def _axes(problem: Problem) -> Iterator[Tensor]:
    """Match the leading principal axes of both sides, with all signs."""
    rank, other = problem.coupling.fixed.shape
    deviations = [
        (side.mass.double() @ side.z[:, :count].double().square()).sqrt()
        for side, count in ((problem.source, rank), (problem.target, other))
    ]
    axes = min(FEW_AXES, rank, other)
    for signs in product((1.0, -1.0), repeat=axes):
        moments = torch.zeros_like(problem.coupling.linear)
        for axis, sign in enumerate(signs):
            moments[axis, axis] = sign * deviations[0][axis] * deviations[1][axis]
        yield moments


def _costs(problem: Problem, generator: torch.Generator) -> Iterator[Tensor]:
    """Match points whose costs to all others are distributed alike.

    What the third lower bound of Mémoli, "Gromov-Wasserstein distances and the metric approach to
    object matching", Foundations of Computational Mathematics 11, 2011, section 6, compares.
    """
    rank, other = problem.coupling.fixed.shape
    sides = (_sample(problem.source, generator), _sample(problem.target, generator))
    first, second = (
        _cost_profile(side, count, generator)
        for (side, _), count in zip(sides, (rank, other), strict=True)
    )
    features = comparable(first, second, ridge=None)
    yield _match(problem, *features, sides[0][0], sides[1][0], SCHEDULE.match_temperatures[0])


def _cost_profile(side: Side, rank: int, generator: torch.Generator) -> Tensor:
    """Compute quantiles of the squared distances from each point to a sample by mass: [N, Q]."""
    x, count = side.z[:, :rank], SCHEDULE.sampled_costs
    sample = torch.multinomial(side.mass.cpu(), count, True, generator=generator)
    distance = torch.cdist(x, x[sample.to(x.device)]).sort(1).values
    place = torch.linspace(0, count - 1, SCHEDULE.quantiles, dtype=torch.float32).long()
    return distance[:, place]


def _heat(
    problem: Problem, points: tuple[Cloud, Cloud], generator: torch.Generator
) -> Iterator[Tensor]:
    """Match points from which heat spreads alike on the neighbour graphs of both sides."""
    source, first = _sample(problem.source, generator)
    target, second = _sample(problem.target, generator)
    graphs = _graphs(points[0], first), _graphs(points[1], second)
    for k in range(max(len(each) for each in graphs)):
        profiles = [
            heat_profiles(each[min(k, len(each) - 1)], side.num_points)
            for each, side in zip(graphs, (source, target), strict=True)
        ]
        features = comparable(*(each.to(problem.source.z) for each in profiles))
        for temperature in SCHEDULE.match_temperatures:
            yield _match(problem, *features, source, target, temperature)


def _sample(side: Side, generator: torch.Generator) -> tuple[Side, Tensor]:
    """Draw points with mass, all if there are few; and say which: [M]."""
    index = (side.log2_mass > -torch.inf).nonzero()[:, 0]
    if index.numel() > SCHEDULE.most_points:
        chosen = (
            torch.randperm(index.numel(), generator=generator)[: SCHEDULE.most_points].sort().values
        )
        index = index[chosen.to(index.device)]
    log2_mass = side.log2_mass[index]
    total = log2_mass.double().exp2().sum().log2()
    return Side(side.z[index], (log2_mass - total).to(log2_mass)), index


def _graphs(points: Cloud, index: Tensor) -> list[Tensor]:
    """Make neighbour graphs [2, E] of some points; of all, take the graph that is given."""
    count = index.numel()
    if points.edge_index is not None and count == points.x.size(0):
        return [points.edge_index]
    if count < 2:
        return [torch.empty(2, 0, dtype=torch.int64, device=index.device)]
    x = points.x[index]
    return [
        knn_graph(x, k, points.metric, kernel=None, progress=False)[0]
        for k in sorted({min(k, count - 1) for k in SCHEDULE.neighbors})
    ]


def _match(
    problem: Problem, first: Tensor, second: Tensor, source: Side, target: Side, temperature: float
) -> Tensor:
    """Compute the moments [R, R'] of the entropic plan between features [N, F] and [K, F].

    `temperature` is a share of the mean squared distance of features.
    """
    p, q = source.mass, target.mass
    spread = p @ first.square().sum(1) + q @ second.square().sum(1)
    bits = LOG2E / (temperature * float(spread) or 1.0)
    bias = target.log2_mass - bits * second.square().sum(1)
    kernel = Kernel(2 * bits * first, second, bias, source.log2_mass, target.log2_mass)
    nothing = torch.zeros_like(q)
    found = sinkhorn(
        kernel,
        nothing,
        target.z,
        problem.one_pass,
        tol=SCHEDULE.match_tol,
        passes=SCHEDULE.match_passes,
    )
    return source.z.T.double() @ found.done.average.double()
