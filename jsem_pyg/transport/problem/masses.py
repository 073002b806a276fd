"""The masses p and q of points: one rule for all solvers.

Masses are finite and non-negative, and count relative to their sum: they are divided by it. The
only exception are the bounds of a partial plan, which are kept as they are. A point may have no
mass, but not all points.
"""

from typing import Any

import torch
from torch import Tensor

from ..._checks import check_finite, check_vector
from ..._precision import power_of_two

_LARGEST = 2.0**60  # sum of the bounds of a partial plan: sums over plans stay below 2^64


def check_masses(name: str, mass: Any, count: int, what: str = "point") -> None:
    """Raise a TypeError or ValueError unless `mass` is [count], finite and non-negative."""
    check_vector(name, mass, count, what)
    check_finite(name, mass)
    lowest = float(mass.detach().min())
    if lowest < 0:
        raise ValueError(f"Expected '{name}' to be non-negative (got a minimum of {lowest:.3g}).")
    if not bool((mass.detach() > 0).any()):
        raise ValueError(f"Expected '{name}' to have mass somewhere (got zeros only).")


def normalized(mass: Tensor) -> Tensor:
    """Masses [..., N], not all zero, divided by their sum; differentiable."""
    mass = mass / power_of_two(mass.amax(-1, keepdim=True))  # whose sum cannot overflow
    return mass / mass.sum(-1, keepdim=True)


def read_masses(name: str, mass: Any, count: int, what: str = "point") -> Tensor:
    """Masses with sum one: [count] float64, differentiable; of None, the same for all.

    Of any positive sum; `what` is a word for the points, for errors.

    Example:
        >>> read_masses("p", torch.tensor([1.0, 3.0]), 2)
        tensor([0.2500, 0.7500], dtype=torch.float64)
    """
    if mass is None:
        return torch.full((count,), 1 / count, dtype=torch.float64)
    check_masses(name, mass, count, what)
    return normalized(mass.double())


def read_bounds(name: str, mass: Any, count: int, default: float) -> Tensor:
    """The most that each point of a partial plan may send or receive: [count] float64."""
    if mass is None:
        return torch.full((count,), default, dtype=torch.float64)
    check_masses(name, mass, count)
    return mass.detach().double()


def check_partial(mass: float, p: Tensor, q: Tensor) -> None:
    """Raise a ValueError unless a partial plan can send this mass within the bounds p and q."""
    most, largest = sorted((float(p.sum()), float(q.sum())))
    if not largest <= _LARGEST * min(most, 1.0):
        raise ValueError(
            f"Expected 'p' and 'q' with sums of at most {_LARGEST:.3g}, and as many times the "
            f"smaller one (got {most:.3g} and {largest:.3g}). To fix this, divide 'p', 'q' and "
            "'mass' by one number, or larger bounds by more: they do not bind."
        )
    if mass > most * (1 + 1e-5):
        raise ValueError(
            f"Expected 'mass' to be at most {most:.6g}, the smaller sum of 'p' and 'q' (got "
            f"{mass})."
        )
