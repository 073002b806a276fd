"""Factors in the form that a problem takes: in principal axes, centred, scaled, as kernels."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..costs.factor import Factor

_NEGLIGIBLE = 1e-7  # standard deviation of an axis, relative to the largest: rounding


class Prepared(NamedTuple):
    """A factor in its principal axes."""

    x: Tensor  # [N, r]
    mean: Tensor  # [r] float64, subtracted from kernels; zero for squared distances
    sign: Tensor  # [r]
    scale: float  # the divisor of x
    kind: str
    offset: Tensor  # [r] float64, the mean of a kernel, whether subtracted or not


def prepare_factor(factor: Factor, mass: Tensor, keeps_mean: bool = False) -> Prepared:
    """Turn a factor into its principal axes by mass, the largest variance first.

    Axes with less than 1e-7 of the largest standard deviation are rounding, and dropped, unless
    points without mass lie along them: what these would cost is the gradient in their masses. Then
    x is divided by the root of the Frobenius norm of its covariance, so that costs are of order
    one; or by its mean, if all mass is at one place and it counts. Without either the scale is one.
    With `keeps_mean` there are axes for the part of the mean that is orthogonal to the others: it
    adds a constant to a kernel; only balanced plans do not depend on it.
    """
    mass = mass.double() / mass.double().sum()
    x, mean = centred(factor.x.detach().double(), mass)
    axes, signs = _principal_axes(x, factor.signs.double(), mass)
    if keeps_mean:
        axes, signs = _with_mean_axes(axes, signs, mean, factor.signs.double())
    x, mean = x @ axes, mean @ axes
    variance = mass @ x.square()
    scale = float(variance.square().sum().sqrt().sqrt())
    if keeps_mean and not scale:
        scale = float((signs @ mean.square()).abs().sqrt())
    scale = scale or 1.0
    # The mean of points at one place matters no more than their coordinates, which are zeros.
    has_mean = factor.kind == "kernel" and (bool(x.any()) or keeps_mean)
    mean = mean / scale if has_mean else torch.zeros_like(mean)
    x = (x / scale).to(factor.x.dtype)
    return Prepared(x, mean, signs, scale, factor.kind, mean)


def prepare_factors(
    first: Factor, second: Factor, p: Tensor, q: Tensor
) -> tuple[Prepared, Prepared]:
    """Turn both factors into their principal axes."""
    return prepare_factor(first, p), prepare_factor(second, q)


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
    axes, signs, variances, massless = [], [], [], []
    for value in (1.0, -1.0):
        columns = (sign == value).nonzero()[:, 0]
        part = x[:, columns]
        variance, basis = torch.linalg.eigh(part.T @ (mass[:, None] * part))
        whole = x.new_zeros(rank, columns.numel())
        whole[columns] = basis * _skew_signs(part @ basis, mass)
        axes.append(whole)
        variances.append(variance)
        massless.append(torch.where(mass[:, None] > 0, 0, part @ basis).square().amax(0))
        signs.append(torch.full_like(variance, value))
    variance = torch.cat(variances)
    order = variance.argsort(descending=True, stable=True)
    size = torch.maximum(variance, torch.cat(massless))[order]
    keep = order[size > _NEGLIGIBLE**2 * variance.max()]
    if keep.numel() == 0:
        keep = order[:1]  # all points are one point: a column of zeros
    return torch.cat(axes, 1)[:, keep], torch.cat(signs)[keep]


def _with_mean_axes(
    axes: Tensor, signs: Tensor, mean: Tensor, sign: Tensor
) -> tuple[Tensor, Tensor]:
    """Add an axis for each sign that the mean [r] has another direction in."""
    rest = mean - axes @ (axes.T @ mean)
    for value in (1.0, -1.0):
        part = torch.where(sign == value, rest, 0)
        norm = part.norm()
        if norm > _NEGLIGIBLE * mean.norm():
            axes = torch.cat([axes, (part / norm)[:, None]], 1)
            signs = torch.cat([signs, signs.new_tensor([value])])
    return axes, signs


def _skew_signs(x: Tensor, mass: Tensor) -> Tensor:
    """Choose directions of axes that do not depend on the order of the points."""
    return torch.where(mass @ x**3 < 0, -1.0, 1.0)


def squared_norms(x: Tensor, mass: Tensor) -> Tensor:
    """Compute squared norms [N, 1] less their mean, in the type of x."""
    a = x.double().square().sum(1, keepdim=True)
    return (a - mass.double() @ a).to(x.dtype)


def as_kernels(first: Factor, second: Factor, p: Tensor, q: Tensor) -> tuple[Prepared, Prepared]:
    """Turn both factors into kernels in one unit, for plans whose squared costs are not constant.

    Squared distances are a kernel with two columns more, one of the sign plus:
    a 1^T + 1 a^T = ((a + 1) (a + 1)^T - (a - 1) (a - 1)^T) / 2 for the squared norms a.
    """
    sides = (
        prepare_factor(_kernel(first, p), p, keeps_mean=True),
        prepare_factor(_kernel(second, q), q, keeps_mean=True),
    )
    unit = (sides[0].scale * sides[1].scale) ** 0.5
    left, right = (
        side._replace(
            x=((side.x.double() + side.mean) * (side.scale / unit)).to(side.x.dtype),
            mean=torch.zeros_like(side.mean),
            scale=unit,
            offset=side.mean * (side.scale / unit) * (each.kind == "kernel"),
        )
        for side, each in zip(sides, (first, second), strict=True)
    )
    return left, right


def _kernel(factor: Factor, mass: Tensor) -> Factor:
    if factor.kind == "kernel":
        return factor
    mass = mass.double() / mass.double().sum()
    x, _ = centred(factor.x.detach().double(), mass)
    norm = x.square().sum(1, keepdim=True)
    unit = float(mass @ norm[:, 0]) or float(norm.max())
    if unit == 0:  # all points are one
        return Factor(torch.zeros_like(factor.x), "kernel")
    root = (unit / 2) ** 0.5
    columns = [2**0.5 * x, root * (norm / unit + 1), root * (norm / unit - 1)]
    sign = -torch.ones(x.size(1) + 2, dtype=x.dtype, device=x.device)
    sign[-2] = 1
    return Factor(torch.cat(columns, 1).to(factor.x.dtype), "kernel", sign=sign)
