"""A curve and a surface that are rolled up alike: what an alignment has to unroll."""

import math

import torch
from torch import Tensor

INNER, OUTER = 1.5 * math.pi, 4.5 * math.pi  # the angles where a roll begins and ends, rad


def spiral(num_points: int, seed: int = 0, noise: float = 0.0) -> tuple[Tensor, Tensor]:
    """An Archimedean spiral.

    Args:
        num_points: N.
        seed: of the positions.
        noise: the standard deviation of what is added to the coordinates; turns are 6.3 apart.

    Returns:
        Points [N, 2] in random order, and where along the curve each lies, in [0, 1]: uniform in
        arc length (some 90 in all), to 1 %.
    """
    generator = torch.Generator().manual_seed(seed)
    position, angle = _positions(num_points, generator)
    x = torch.stack([angle * angle.cos(), angle * angle.sin()], 1)
    return x + noise * torch.randn(x.shape, generator=generator), position


def swiss_roll(
    num_points: int, seed: int = 0, noise: float = 0.0, width: float = 10.0
) -> tuple[Tensor, Tensor]:
    """The spiral as a sheet: points [N, 3], and where along the spiral each lies, in [0, 1].

    Args:
        num_points: N.
        seed: of the positions.
        noise: the standard deviation of what is added to the coordinates.
        width: of the sheet, which is some 90 long.
    """
    generator = torch.Generator().manual_seed(seed)
    position, angle = _positions(num_points, generator)
    height = width * torch.rand(num_points, generator=generator)
    x = torch.stack([angle * angle.cos(), height, angle * angle.sin()], 1)
    return x + noise * torch.randn(x.shape, generator=generator), position


def _positions(num_points: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Where points lie along the spiral, and their angles: length grows as half their square."""
    position = torch.rand(num_points, generator=generator)
    return position, (INNER**2 + position * (OUTER**2 - INNER**2)).sqrt()
