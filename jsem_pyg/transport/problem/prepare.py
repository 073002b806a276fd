"""Factors in the form that a problem takes: in principal axes, centred and scaled."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..costs.factor import Factor

_NEGLIGIBLE = 1e-7  # standard deviation of an axis, relative to the largest: rounding


class AxisFactor(NamedTuple):
    """A factor in its principal axes."""

    x: Tensor  # [N, r]
    mean: Tensor  # [r] float64, subtracted from kernels; zero for squared distances
    sign: Tensor  # [r]
    scale: float  # the divisor of x
    kind: str


def prepare_factor(factor: Factor, mass: Tensor) -> AxisFactor:
    """Turn a factor into its principal axes by mass, the largest variance first.

    Axes with less than 1e-7 of the largest standard deviation are rounding, and dropped. Then x is
    divided by the root of the Frobenius norm of its covariance, so that costs are of order one.
    """
    mass = mass.double() / mass.double().sum()
    x, mean = centred(factor.x.detach().double(), mass)
    axes, signs = _principal_axes(x, factor.signs.double(), mass)
    x, mean = x @ axes, mean @ axes
    variance = mass @ x.square()
    scale = float(variance.square().sum().sqrt().sqrt()) or 1.0
    # The mean of points at one place matters no more than their coordinates, which are zeros.
    has_mean = factor.kind == "kernel" and bool(x.any())
    mean = mean / scale if has_mean else torch.zeros_like(mean)
    x = (x / scale).to(factor.x.dtype)
    return AxisFactor(x, mean, signs, scale, factor.kind)


def as_kernel(side: AxisFactor, unit: float) -> AxisFactor:
    """Write costs, divided by a squared unit, as a kernel.

    Of squared distances, |x - y|^2 = a + b - 2 x.y for the squared norms a and b, and a + b =
    ((a + 1)(b + 1) - (a - 1)(b - 1)) / 2, here with another number than one.
    """
    x = side.x * (side.scale / unit)
    mean = torch.zeros_like(side.mean)
    if side.kind == "kernel":
        return side._replace(x=x + side.mean * (side.scale / unit), mean=mean)
    a = x.square().sum(1, keepdim=True)
    # Then the two columns vary as much as the others.
    one = (a.std(correction=0) / x.square().mean(0).max().clamp(min=1e-30)).sqrt().clamp(min=1e-3)
    pair = math.sqrt(0.5) * torch.cat([a / one + one, a / one - one], 1)
    signs = torch.cat([-torch.ones_like(x[0]), pair.new_tensor([1.0, -1.0])])
    return AxisFactor(torch.cat([math.sqrt(2) * x, pair], 1), pad(mean, (0, 2)), signs, 1, "kernel")


def centred(x: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
    """Subtract the mean of points by masses with sum one; returns it, too.

    Copies of one point are zero, not rounding.
    """
    some = x[mass.argmax()]
    x = x - some
    mean = mass @ x
    return x - mean, some + mean


def _principal_axes(x: Tensor, sign: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
    """Find axes [r, r'] and their signs, most variance first; signs of kernels do not mix."""
    rank = x.size(1)
    axes, signs, variances = [], [], []
    for value in (1.0, -1.0):
        columns = (sign == value).nonzero()[:, 0]
        part = x[:, columns]
        variance, basis = torch.linalg.eigh(part.T @ (mass[:, None] * part))
        whole = x.new_zeros(rank, columns.numel())
        whole[columns] = basis * _skew_signs(part @ basis, mass)
        axes.append(whole)
        variances.append(variance)
        signs.append(torch.full_like(variance, value))
    variance = torch.cat(variances)
    order = variance.argsort(descending=True, stable=True)
    keep = order[variance[order] > _NEGLIGIBLE**2 * variance.max()]
    if keep.numel() == 0:
        keep = order[:1]  # all points are one point: a column of zeros
    return torch.cat(axes, 1)[:, keep], torch.cat(signs)[keep]


def _skew_signs(x: Tensor, mass: Tensor) -> Tensor:
    """Choose directions of axes that do not depend on the order of the points."""
    return torch.where(mass @ x**3 < 0, -1.0, 1.0)


def squared_norms(x: Tensor, mass: Tensor) -> Tensor:
    """Compute squared norms [N, 1] less their mean, in the type of x."""
    a = x.double().square().sum(1, keepdim=True)
    return (a - mass.double() @ a).to(x.dtype)
