"""How likely a kernel, its time and the noise make observed values, and where it is highest."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import max_pool2d
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from .kernel import TIMES, Field, Kernel

LOG_NOISES = torch.linspace(-13, 6, 77, dtype=torch.float64)  # of r
_PEAKS, _LOWER = 3, 3.0  # so many peaks of the grid are climbed, if no lower than the highest by
_USUAL = (-3.0, -1.0)  # log r, to start from as well where edges are learned
_LEAST_NOISE = 2e-6  # r, so that A has a Cholesky factor
_PRIOR = 3.0  # standard deviation of a conductance's parameters around their start


class Point(NamedTuple):
    """A kernel with its time and ratio, and its weight in the average."""

    kernel: Kernel
    t: float
    r: float
    weight: float


def solve(
    covariance: Tensor, y: Tensor, r: Tensor | float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
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


def log_likelihood(
    log_det: Tensor, ones: Tensor, squares: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Compute likelihoods of S signals: the largest, and up to a constant that without mu and a.

    By log det A, the sum of its inverse and the sums of squares [S, ...].
    """
    log_variance = (squares / count).clamp(min=1e-300).log()
    largest = -0.5 * (log_det + count * (math.log(2 * math.pi) + 1 + log_variance)).sum(0)
    return largest, largest + 0.5 * (log_variance - ones.log()).sum(0)


def find_likely(
    field: Field, kernels: Sequence[Kernel], y: Tensor, nodes: Tensor, t: float | None
) -> tuple[Point, list[Point], float]:
    """Find the most likely point for values [M, S]: it, a grid with weights, and its likelihood.

    The conductance of the field is trained.
    """
    from scipy.optimize import minimize

    theta = [] if field.conductance is None else list(field.conductance.parameters())
    log_t, log_r = (Parameter(torch.zeros((), dtype=torch.float64)) for _ in range(2))
    parameters = [log_t, log_r, *theta]
    given = parameters_to_vector(parameters).detach()[2:]
    largest, integral = _on_grid(field, kernels, y, nodes)
    kernel, starts = _starts(field, kernels, largest, t)

    def likely() -> tuple[Tensor, Tensor]:
        covariance = field.covariance(nodes, kernel, log_t.exp())
        factor, _, _, squares, one = solve(covariance, y, log_r.exp())
        log_det = 2 * factor.diagonal().log().sum()
        return log_likelihood(log_det, one.sum(), squares, len(y))

    def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
        vector_to_parameters(torch.from_numpy(vector), parameters)
        moved = (parameters_to_vector(parameters)[2:] - given) / _PRIOR
        value = (moved.square().sum() / 2 - likely()[0]) / y.numel()
        grads = torch.autograd.grad(value, parameters)
        return float(value.detach()), parameters_to_vector(grads).numpy()

    longest = float(field.times(kernel)[-1].log())
    bounds = [(longest - 16, longest), (math.log(_LEAST_NOISE), math.log(1e3))]
    bounds += [(-math.inf, math.inf)] * len(given)
    options = {"jac": True, "method": "L-BFGS-B", "options": {"maxiter": 100}, "bounds": bounds}
    found = [minimize(loss, torch.cat([start, given]).numpy(), **options) for start in starts]
    best = min(found, key=lambda each: float(each.fun))
    vector_to_parameters(torch.from_numpy(best.x), parameters)
    if field.conductance is not None:
        integral = _on_grid(field, kernels, y, nodes)[1]
    with torch.no_grad():
        highest_likelihood, here = likely()
    highest = torch.maximum(integral.max(), here)
    weight = (integral - highest).exp()
    grid = [
        Point(each, float(t), math.exp(LOG_NOISES[j]), float(weight[c, i, j]))
        for c, each in enumerate(kernels)
        for i, t in enumerate(field.times(each))
        for j in range(len(LOG_NOISES))
    ]
    t, r = log_t.exp().item(), log_r.exp().item()
    return Point(kernel, t, r, float((here - highest).exp())), grid, float(highest_likelihood)


@torch.no_grad()
def _on_grid(field: Field, kernels: Sequence[Kernel], y: Tensor, nodes: Tensor) -> Tensor:
    """Compute both likelihoods on the grid [2, C, T, R]; an eigendecomposition serves all R."""
    field, found, ratios = field.frozen(), [], LOG_NOISES.exp()
    for _, group in itertools.groupby(kernels, lambda each: each.normalization):
        pairs = [(kernel, float(t)) for kernel in group for t in field.times(kernel)]
        for covariance in field.entries(pairs, nodes, nodes):
            value, mode = torch.linalg.eigh(covariance / covariance.diagonal().mean())
            # [M, R] the eigenvalues of A; [M, 1] ones, [M, S] the signals in its eigenvectors
            both = value.clamp(min=0)[:, None] + ratios
            one, own = mode.sum(0)[:, None], mode.T @ (y - y.mean(0))
            ones = (one.square() / both).sum(0)
            mean = ((one / both).T @ own) / ones[:, None]
            squares = (1 / both).T @ own.square() - mean.square() * ones[:, None]
            likely = log_likelihood(both.log().sum(0), ones, squares.T, len(y))
            found.append(torch.stack(likely))
    return torch.stack(found, 1).reshape(2, len(kernels), len(TIMES), len(ratios))


def _starts(
    field: Field, kernels: Sequence[Kernel], found: Tensor, t: float | None
) -> tuple[Kernel, list[Tensor]]:
    """Return the likeliest kernel, and log t and log r of its best peaks on the grid [C, T, R]."""
    kernel, found = max(zip(kernels, found, strict=True), key=lambda each: each[1].max())
    times = field.times(kernel)
    if t is not None:
        nearest = int((times.log() - math.log(t)).abs().argmin())
        times, found = torch.tensor([t], dtype=torch.float64), found[nearest : nearest + 1]
    peaks = found == max_pool2d(found[None], 3, stride=1, padding=1)[0]
    peaks &= found > found.max() - _LOWER
    place = peaks.nonzero()[found[peaks].argsort(descending=True)][:_PEAKS].tolist()
    usual = torch.searchsorted(LOG_NOISES, torch.tensor(_USUAL).double()).tolist()
    if field.conductance is not None:  # with other conductances another place may be the best
        place += [[int(found[:, j].argmax()), j] for j in usual]
    return kernel, [torch.stack([times[i].log(), LOG_NOISES[j].exp().log()]) for i, j in place]
