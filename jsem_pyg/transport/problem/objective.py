r"""The objective of Gromov-Wasserstein transport, computed from factors.

.. math::
    E(\mathbf{T}) = \sum_{ijkl} |C_{ik} - D_{jl}|^2 T_{ij} T_{kl}
    = r^T C^{\circ 2} r + c^T D^{\circ 2} c - 2 \langle \mathbf{C} \mathbf{T} \mathbf{D},
    \mathbf{T} \rangle

with r = T 1 and c = T^T 1. Everything is differentiable in the factors, the plan held fixed.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ..costs.factor import Factor

Average = Callable[[Tensor], Tensor]  # Y [K, D] -> T Y [N, D], differentiable in Y


def squared_cost(factor: Factor, mass: Tensor) -> Tensor:
    r"""Sum C_ik^2 r_i r_k, differentiable in the factor and the masses r [N]."""
    x, mass = _centred(factor, mass), mass.to(factor.x)
    second = x.T @ (mass[:, None] * x)
    if factor.kind == "kernel":
        return (factor.signs[:, None] * factor.signs * second.square()).sum()
    a = x.square().sum(1)
    return 2 * mass.sum() * (mass @ a.square()) + 2 * (mass @ a) ** 2 + 4 * second.square().sum()


def cross_cost(first: Factor, second: Factor, average: Average, r: Tensor, c: Tensor) -> Tensor:
    """Compute <C T D, T>, differentiable in both factors; `average` multiplies with T."""
    x, y = _centred(first, r), _centred(second, c)
    if first.kind == "kernel":
        matched = x.T @ average(y)
        return (first.signs[:, None] * second.signs * matched.square()).sum()
    a, b = x.square().sum(1, keepdim=True), y.square().sum(1, keepdim=True)
    together = average(torch.cat([y, b], 1))
    matched = x.T @ together[:, :-1]
    norms = a[:, 0] @ together[:, -1]
    r, c = r.to(x), c.to(y)
    return 2 * r.sum() * norms + 2 * (r @ a).sum() * (c @ b).sum() + 4 * matched.square().sum()


def feature_cost(first: Tensor, second: Tensor, average: Average, r: Tensor, c: Tensor) -> Tensor:
    """Sum |phi_i - psi_j|^2 T_ij of features [N, d] and [K, d]."""
    apart = r.to(first) @ first.square().sum(1) + c.to(second) @ second.square().sum(1)
    return apart - 2 * (first * average(second)).sum()


def fused_cost(
    first: Factor,
    second: Factor,
    features: tuple[Tensor, Tensor] | None,
    alpha: float,
    average: Average,
    r: Tensor,
    c: Tensor,
) -> Tensor:
    """Compute the objective without the entropy: alpha E(T) + (1 - alpha) <M, T>, or E(T) alone."""
    squares = squared_cost(first, r) + squared_cost(second, c)
    cost = squares - 2 * cross_cost(first, second, average, r, c)
    if features is None:
        return cost
    linear = feature_cost(features[0].to(cost), features[1].to(cost), average, r, c)
    return alpha * cost + (1 - alpha) * linear


def known_pull(
    first: Factor, second: Factor, pairs: Tensor, average: Average, r: Tensor, c: Tensor
) -> Tensor:
    """Compute the term -4 <C K D, T> of known pairs [2, M]: K sends M / (M + axes) between them.

    They say little about more axes than there are pairs. Inner products of centred coordinates
    (times -2 for squared distances) take the place of C and D, so that pairs far from the middle
    pull most: see :mod:`.problem.problem`.
    """
    columns = []
    for factor, mass, nodes in zip((first, second), (r, c), pairs, strict=True):
        x = _less_mean(factor.x, mass)
        weight = -2.0 if factor.kind == "sqdist" else factor.signs
        columns.append((x * weight) @ x[nodes].T)
    count = pairs.size(1) + num_axes(_less_mean(first.x, r), r.to(first.x))
    return -4 / count * (columns[0] * average(columns[1])).sum()


def num_axes(x: Tensor, mass: Tensor) -> Tensor:
    """Count the axes on which centred points [N, r] vary, the longest for one, others for less."""
    second = x.T @ (mass[:, None] * x)
    return second.trace() ** 2 / second.square().sum().clamp(min=1e-30)


def _less_mean(x: Tensor, mass: Tensor) -> Tensor:
    mass = mass.to(x)
    share = mass / mass.sum().clamp(min=torch.finfo(mass.dtype).tiny)
    x = x - x[0].detach()  # copies of one point are zero, not rounding
    return x - share @ x


def _centred(factor: Factor, mass: Tensor) -> Tensor:
    """Subtract the mean, if only distances matter: sums over coordinates vanish then."""
    return factor.x if factor.kind == "kernel" else _less_mean(factor.x, mass)
