"""The masses p and q of points: one rule for all solvers.

Masses are finite and non-negative, and are divided by their sum. A point may have no mass, but not
all points.
"""

from typing import Any

import torch
from torch import Tensor

from ..._checks import check_finite, check_vector

_LEAST_SHARE = 1e-9  # of the largest mass


def _check_masses(name: str, mass: Any, count: int) -> None:
    """Raise a TypeError or ValueError unless `mass` is [count], finite and non-negative."""
    check_vector(name, mass, count, "point")
    check_finite(name, mass)
    lowest, largest = (float(each) for each in torch.aminmax(mass.detach()))
    if lowest < 0:
        raise ValueError(f"Expected '{name}' to be non-negative (got a minimum of {lowest:.3g}).")
    if largest == 0:
        raise ValueError(f"Expected '{name}' to have mass somewhere (got zeros only).")
    positive = float(mass.detach()[mass.detach() > 0].min())
    if positive < _LEAST_SHARE * largest:
        raise ValueError(
            f"Expected '{name}' to be zero, or at least {_LEAST_SHARE:g} of its largest, "
            f"{largest:.3g} (got {positive:.3g}). To fix this, leave such points out."
        )


def as_partners(p: Tensor, q: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """Give known points [2, M] of the smaller side the mass of their partners; others the rest.

    Else a part of it would have to go elsewhere. If all points are known, masses stay.
    """
    if len(p) > len(q):
        q, p = as_partners(q, p, pairs.flip(0))
    known = pairs[0].unique()
    if len(known) < len(p) < len(q):
        p = torch.full_like(p, (1 - len(known) / len(q)) / (len(p) - len(known)))
        p[known] = 1 / len(q)
    return p, q


def read_bounds(p: Any, q: Any, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Read the most that points of a partial plan send and receive; the smaller sum is one.

    Of None, the same for all points of both sides.
    """
    bounds = []
    for name, mass, count in (("p", p, shape[0]), ("q", q, shape[1])):
        if mass is not None:
            _check_masses(name, mass, count)
        given = torch.ones(count) if mass is None else mass.detach()
        bounds.append(given.double())
    least = min(float(each.sum()) for each in bounds)
    return bounds[0] / least, bounds[1] / least


def read_masses(name: str, mass: Any, count: int) -> Tensor:
    """Read masses with sum one: [count] float64, differentiable; of None, the same for all.

    Example:
        >>> read_masses("p", torch.tensor([1.0, 3.0]), 2)
        tensor([0.2500, 0.7500], dtype=torch.float64)
    """
    if mass is None:
        return torch.full((count,), 1 / count, dtype=torch.float64)
    _check_masses(name, mass, count)
    mass = mass.double()
    return mass / mass.sum()
