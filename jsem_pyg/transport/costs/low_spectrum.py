"""The slowest modes of a graph: the lowest eigenpairs of its Laplacian, by heat diffusion."""

import logging
import math

import torch
from torch import Tensor

from ..._random import seeded
from ...diffusion import heat_coefficients, heat_degree, heat_diffusion
from ...diffusion.times import LONGEST
from ...graph import GraphStructure
from ...operators import laplacian_operator
from .graph_input import GraphInput

_log = logging.getLogger(__name__)

# Decay exponent of the last wanted mode in one diffusion. A larger one needs fewer diffusions, each
# of which costs the root of its time. But this mode has to stay well above the error of a
# diffusion, about 1e-8: 18 needs more diffusions than 10, and 30 does not converge.
DECAY = 10.0
MOST_FLOWS = 40


class LowSpectrum:
    """The Laplacian L of a connected graph, its slowest modes, and its pseudo-inverse on the rest.

    All is computed in float64, without gradients.
    """

    def __init__(self, graph: GraphInput) -> None:
        self.structure = graph.structure
        device, size = graph.structure.device, graph.structure.num_edges
        ones = torch.ones(size, dtype=torch.float64, device=device)
        self.weight = ones if graph.weight is None else graph.weight.detach().double()
        self.operator = laplacian_operator(self.structure, self.weight)
        self.fastest = self.operator.scaling.rates[1]
        degree = weighted_degree(self.structure, self.weight)[:, None]
        self.still = (degree / degree.sum()).sqrt()  # the mode that stays, of eigenvalue zero

    def without_still(self, x: Tensor) -> Tensor:
        """Signals [N, M] without their component in the constant mode."""
        return x - self.still @ (self.still.T @ x)

    def modes(self, rank: int, seed: int, tol: float = 1e-4) -> tuple[Tensor, Tensor]:
        r"""The lowest eigenvalues [rank] above zero, ascending, and their eigenvectors [N, rank].

        Diffusion damps all but the slowest modes of random signals. The result, twice as many
        columns as wanted, is made orthonormal, and L is diagonalised on it (Rayleigh and Ritz).
        This is repeated until :math:`||\mathbf{L v} - \lambda \mathbf{v}|| \le \mathrm{tol} \,
        \lambda` for every mode.

        Source: Saad, "Numerical methods for large eigenvalue problems", 2011, chapter 5, for
        subspace iteration with a filter.
        """
        size = self.structure.num_nodes
        generator = seeded(seed)
        width = min(size - 1, max(2 * rank, rank + 16))
        block = torch.randn(size, width, generator=generator, dtype=torch.float64)
        block = torch.linalg.qr(self.without_still(block.to(self.still.device)))[0]
        for _ in range(MOST_FLOWS):
            value, block, residual = self._ritz(block)
            worst = float((residual / value)[:rank].max())
            if worst <= tol:
                break
            longest = LONGEST / self.fastest
            t = min(DECAY / float(value[rank - 1]), longest)
            flown = heat_diffusion(block, self.structure, self.weight, t)
            block = torch.linalg.qr(self.without_still(flown))[0]
        else:
            _log.warning(
                "The %d slowest modes of a graph of %d nodes have a relative residual of %.2g after"
                " %d flows, more than %.2g. To fix this, pass another 'rank'.",
                rank,
                size,
                worst,
                MOST_FLOWS,
                tol,
            )
        return value[:rank], block[:, :rank]

    def _ritz(self, block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Ritz values [M] of an orthonormal block [N, M], vectors [N, M], residuals [M]."""
        image = self.operator.apply_laplacian(block)
        core = block.T @ image
        value, turn = torch.linalg.eigh((core + core.T) / 2)
        value = value.clamp(min=torch.finfo(value.dtype).tiny)
        vector = block @ turn
        return value, vector, (image @ turn - vector * value).norm(dim=0)

    def inverse_beyond(self, x: Tensor, value: Tensor, vector: Tensor) -> Tensor:
        r"""The inverse of L on what of signals [N, M] lies beyond the slowest modes.

        .. math::
            \lambda^{-1} = \int_0^\infty e^{-t \lambda} \, dt

        by the trapezoidal rule in log t. What is summed are the coefficients of the Chebyshev
        series, so that one series is run. To about 2 %, as the estimate of an error needs it.
        """
        x = self.without_still(x)
        x = x - vector @ (vector.T @ x)
        rate = self.fastest
        longest = min(max(1.0, 5 * rate / float(value[-1])), LONGEST)
        low, high = math.log(0.03), math.log(longest)
        time = torch.linspace(low, high, 2 + int(high - low), dtype=torch.float64).exp()
        time = time.clamp(max=longest)  # the exponential of a logarithm may round up
        share = time / rate * torch.log(time[1] / time[0])
        degree = heat_degree(float(time[-1]), 1e-4)
        coefficients = (heat_coefficients(time, degree) * share).sum(1)
        return self.operator.matrix.series(x, coefficients.to(x.device)[:, None, None, None])[0]


def weighted_degree(structure: GraphStructure, weight: Tensor) -> Tensor:
    """[N] the sums of the weights [E] at every node; differentiable."""
    slots = structure.symmetric(structure.to_slots(weight))
    return slots.new_zeros(structure.num_nodes).index_add(0, structure.row.long(), slots)
