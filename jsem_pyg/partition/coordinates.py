"""Where nodes lie, read from the edges alone."""

import torch
from torch import Tensor

from ..diffusion import heat_diffusion
from ..graph import GraphStructure

_COUNT, _SPARE = 3, 5
_TIME, _TOL = 300.0, 1e-2


def diffusion_coordinates(structure: GraphStructure) -> Tensor:
    """[N, 3] float64, rough: the directions in which heat of the graph lasts longest.

    A few random columns are diffused for long; of what they span, the directions that S shrinks
    least are taken, but for the constant one (subspace iteration with a Rayleigh-Ritz step), as far
    as heat has not left them.

    Source: Coifman and Lafon, "Diffusion maps", Applied and Computational Harmonic Analysis 21
    (2006); Saad, "Numerical methods for large eigenvalue problems" (2011), chapter 5.
    """
    size = structure.num_nodes
    if size == 0:
        return torch.zeros(0, _COUNT, dtype=torch.float64)
    noise = torch.randn(size, 1 + _COUNT + _SPARE, generator=torch.Generator().manual_seed(0))
    noise = noise.to(structure.device)
    lasting = heat_diffusion(noise, structure, t=_TIME, tol=_TOL)
    basis = torch.linalg.qr(lasting.double())[0]
    moved = heat_diffusion(basis, structure, t=1.0)
    left, turn = torch.linalg.eigh(basis.T @ moved)  # of each direction, after a time of one
    degree = structure.csr.degree.clamp(min=1).double()
    found = basis @ (turn * left.clamp(0, 1) ** _TIME).flip(1)
    found = found[:, 1 : 1 + _COUNT] / degree.sqrt()[:, None]
    missing = torch.zeros(size, _COUNT - found.size(1), dtype=found.dtype)
    return torch.cat([found.cpu(), missing], dim=1)
