"""Means and deviations at all nodes, given the values at some, averaged over likely kernels."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Generator, Tensor

from .kernel import Field, Kernel
from .likelihood import Point, solve

SAMPLES = 256  # draws of the process on large graphs, whose variances are estimated


def likely_points(best: Point, grid: Sequence[Point], count: int) -> list[Point]:
    """List points at even quantiles of the weights, which they share; of one, the best."""
    points = [best, *grid]
    total = np.cumsum([each.weight for each in points])
    place = total.searchsorted((np.arange(count) + 0.5) / count * total[-1])
    found = np.bincount(place if count > 1 else [0])
    return [points[i]._replace(weight=float(found[i] / count)) for i in found.nonzero()[0]]


@torch.no_grad()
def condition(
    field: Field, y: Tensor, nodes: Tensor, best: Point, points: Sequence[Point], draws: Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Given values, compute means, deviations [N, S], noises [S], and amplitudes [S] of the best.

    Noises are averaged as signals are: what one kernel takes for noise, another takes for signal.
    """
    field, is_small, size = field.frozen(), field.is_small, len(y)
    rows = torch.arange(field.structure.num_nodes) if is_small else nodes
    kernels = list(dict.fromkeys((each.kernel, each.t) for each in (best, *points)))
    columns: dict[tuple[Kernel, float], Tensor] = {}  # of K, at nodes
    for kind in dict.fromkeys(kernel.normalization for kernel, _ in kernels):
        some = [each for each in kernels if each[0].normalization == kind]
        columns |= zip(some, field.entries(some, nodes, rows), strict=True)

    first = second = noise = torch.zeros((), dtype=torch.float64)
    for point in points:
        kernel, t, r, weight = point
        near = columns[kernel, t]
        factor, kappa, mean, squares, one = solve(near[nodes] if is_small else near, y, r)
        alpha = torch.cat([torch.cholesky_solve(y - mean, factor), one], 1) / kappa
        if is_small:
            white = torch.linalg.solve_triangular(factor, near.T / kappa, upper=False)
            value, mode = field.modes(kernel.normalization)
            prior = mode.square() @ kernel(t, value)
            left, out = prior / kappa - white.square().sum(0), near @ alpha
        else:
            left = _sampled_variance(field, factor, kappa, nodes, point, draws)
            out = field.filter(alpha, nodes, kernel, t)
        found = mean + out[:, :-1]
        # What is not explained, of the signal and of a mean that is known by the values only.
        left = left.clamp(min=0)[:, None] + (1 - out[:, -1:]).square() / one.sum()
        first = first + weight * found
        second = second + weight * (found.square() + left * squares / (size - 1))
        noise = noise + weight * r * squares / (size - 1)
    deviation = (second - first.square()).clamp(min=0).sqrt()
    near = columns[best.kernel, best.t]
    squares = solve(near[nodes] if is_small else near, y, best.r)[3]
    return first, deviation, noise.sqrt(), (squares / (size - 1)).sqrt()


def _sampled_variance(
    field: Field, factor: Tensor, kappa: Tensor, nodes: Tensor, point: Point, draws: Generator
) -> Tensor:
    """Estimate what is left by draws of the process, less what is interpolated from them."""
    total = torch.zeros(field.structure.num_nodes, dtype=torch.float64)
    samples = round(SAMPLES * point.weight)
    for count in map(len, torch.arange(samples).split(field.width)):
        white = torch.randn(len(total), count, dtype=torch.float64, generator=draws)
        drawn = field.filter(white, None, point.kernel, point.t, 0.5) / kappa.sqrt()
        noise = torch.randn(len(nodes), count, dtype=torch.float64, generator=draws)
        solved = torch.cholesky_solve(drawn[nodes] + math.sqrt(point.r) * noise, factor)
        explained = field.filter(solved, nodes, point.kernel, point.t) / kappa
        total += (drawn - explained).square().sum(1)
    return total / samples
