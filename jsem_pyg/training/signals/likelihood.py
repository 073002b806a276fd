"""How likely a kernel, its time and the noise make observed values, and where it is highest."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import max_pool1d
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from .kernel import TIMES, Field, Kernel

LOG_NOISES = torch.linspace(-13, 6, 77, dtype=torch.float64)  # of r
_LOWER = 3.0  # than the highest peak of the grid, others are climbed as well
_CLIMBS, _GAIN = 3, 0.1  # climbs with edges that are learned, each if the grid has so much more
_ENDS = math.log(2e-6), math.log(1e3)  # of log r; the first, so that A has a Cholesky factor
_PRIOR = 3.0  # standard deviation of a conductance's parameters around their start


class Point(NamedTuple):
    """A kernel with its time and ratio, and its weight in the average."""

    kernel: Kernel
    t: float
    r: float
    weight: float


def solve(covariance: Tensor, y: Tensor, r: float) -> tuple[Tensor, ...]:
    """Solve for values [M, S] by their covariance K [M, M] and the ratio of noise.

    Returns the factor of A, kappa, the means and sums of squares [S], and A^-1 1 [M, 1].
    """
    kappa = covariance.diagonal().mean()
    eye = torch.eye(len(y), dtype=torch.float64)
    factor = torch.linalg.cholesky(covariance / kappa + r * eye)
    one = torch.cholesky_solve(torch.ones_like(y[:, :1]), factor)
    mean = (one * y).sum(0) / one.sum()
    white = torch.linalg.solve_triangular(factor, y - mean, upper=False)
    return factor, kappa, mean, white.square().sum(0), one


def log_likelihood(log_det: Tensor, ones: Tensor, squares: Tensor, count: int) -> Tensor:
    """Compute likelihoods of S signals: the largest, and up to a constant that without mu and a.

    By log det A, the sum of its inverse and the sums of squares [S, ...].
    """
    log_variance = (squares / count).clamp(min=1e-300).log()
    largest = -0.5 * (log_det + count * (math.log(2 * math.pi) + 1 + log_variance)).sum(0)
    return torch.stack([largest, largest + 0.5 * (log_variance - ones.log()).sum(0)])


def find_likely(
    field: Field, kernels: Sequence[Kernel], y: Tensor, nodes: Tensor, t: float | None
) -> tuple[Point, list[Point], float]:
    """Find the most likely point for values [M, S]: it, a grid with weights, and its likelihood.

    The conductance of the field is trained.
    """
    from scipy.optimize import minimize

    log_t = Parameter(torch.zeros((), dtype=torch.float64))
    parameters = [log_t, *(field.conductance.parameters() if field.conductance else ())]
    given = parameters_to_vector(parameters).detach()[1:]
    largest, integral = _on_grid(field, kernels, y, nodes)

    def likely() -> tuple[Tensor, Tensor, float]:
        covariance = field.covariance(nodes, kernel, log_t.exp())
        r = _best_noise(covariance, y)  # of the highest likelihood, so that it adds no gradient
        factor, _, _, squares, one = solve(covariance, y, r)
        log_det = 2 * factor.diagonal().log().sum()
        return *log_likelihood(log_det, one.sum(), squares, len(y)), r

    def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
        vector_to_parameters(torch.from_numpy(vector), parameters)
        moved = (parameters_to_vector(parameters)[1:] - given) / _PRIOR
        value = (moved.square().sum() / 2 - likely()[0]) / y.numel()
        grads = torch.autograd.grad(value, parameters)
        return float(value.detach()), parameters_to_vector(grads).numpy()

    for _ in range(_CLIMBS):
        kernel, profile = max(zip(kernels, largest.amax(2), strict=True), key=lambda e: e[1].max())
        times = field.times(kernel).log()
        longest, peaks = float(times[-1]), profile > profile.max() - _LOWER
        peaks &= profile == max_pool1d(profile[None], 3, stride=1, padding=1)[0]
        starts = times[peaks] if t is None else times.new_tensor([math.log(t)])
        learned = parameters_to_vector(parameters).detach()[1:].expand(len(starts), -1)
        starts = torch.cat([starts[:, None], learned], 1)
        bounds = [(longest - 16, longest)] + [(-math.inf, math.inf)] * len(given)
        options = {"jac": True, "method": "L-BFGS-B", "options": {"maxiter": 100}, "bounds": bounds}
        found = [minimize(loss, start, **options) for start in starts.numpy()]
        best = min(found, key=lambda each: float(each.fun))
        vector_to_parameters(torch.from_numpy(best.x), parameters)
        with torch.no_grad():
            highest_likelihood, here, r = likely()
        if field.conductance is None:
            break
        # With the edges as they are now, another kernel or time may be the best.
        largest, integral = _on_grid(field, kernels, y, nodes)
        if largest.max() <= highest_likelihood + _GAIN:
            break
        t = None
    highest = torch.maximum(integral.max(), here)
    weight = (integral - highest).exp()
    pairs = [(each, float(at)) for each in kernels for at in field.times(each)]
    places = itertools.product(pairs, LOG_NOISES.exp().tolist())
    grid = [Point(*p, r, w) for (p, r), w in zip(places, weight.flatten().tolist(), strict=True)]
    best_point = Point(kernel, log_t.exp().item(), r, float((here - highest).exp()))
    return best_point, grid, float(highest_likelihood)


@torch.no_grad()
def _on_grid(field: Field, kernels: Sequence[Kernel], y: Tensor, nodes: Tensor) -> Tensor:
    """Compute both likelihoods on the grid [2, C, T, R]."""
    field, found = field.frozen(), []
    for _, group in itertools.groupby(kernels, lambda each: each.normalization):
        pairs = [(kernel, float(t)) for kernel in group for t in field.times(kernel)]
        for covariance in field.entries(pairs, nodes, nodes):
            found.append(_at_noises(*_decompose(covariance, y), LOG_NOISES.exp()))
    return torch.stack(found, 1).reshape(2, len(kernels), len(TIMES), len(LOG_NOISES))


def _decompose(covariance: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return eigenvalues [M, 1] of K / kappa, and ones [M, 1] and signals [M, S] by its modes."""
    value, mode = torch.linalg.eigh(covariance / covariance.diagonal().mean())
    return value.clamp(min=0)[:, None], mode.sum(0)[:, None], mode.T @ (y - y.mean(0))


def _at_noises(value: Tensor, one: Tensor, own: Tensor, ratios: Tensor) -> Tensor:
    """Compute both likelihoods at ratios of noise: [2, R]."""
    both = value + ratios  # [M, R] the eigenvalues of A
    ones = (one.square() / both).sum(0)
    mean = ((one / both).T @ own) / ones[:, None]
    squares = (1 / both).T @ own.square() - mean.square() * ones[:, None]
    return log_likelihood(both.log().sum(0), ones, squares.T, len(own))


@torch.no_grad()
def _best_noise(covariance: Tensor, y: Tensor) -> float:
    """Return the most likely ratio of noise: that of a grid, and of ever finer ones around it."""
    parts, log_r = _decompose(covariance, y), LOG_NOISES
    for step in LOG_NOISES.diff()[0] / 8.0 ** torch.arange(6):
        best = log_r[int(_at_noises(*parts, log_r.exp())[0].argmax())]
        log_r = (best + step * torch.linspace(-1, 1, 17, dtype=torch.float64)).clamp(*_ENDS)
    return float(best.exp())
