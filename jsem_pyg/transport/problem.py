r"""What is to be solved, in the numbers that solvers need: the coordinates of both sides, and how
their moments become scores.

With :math:`\mathbf{Z} = [\mathbf{x}, a, \phi]` and :math:`\mathbf{V} = [\mathbf{y}, b, \psi]` side
by side (coordinates, centred; squared norms less their mean; features) and the moments
:math:`\mathbf{M} = \mathbf{Z}^T \mathbf{T} \mathbf{V}`, the objective is

.. math::
    E(\mathbf{T}) = \mathrm{const} - 2 \kappa \alpha ||\mathbf{G}||^2 - 4 \lambda \alpha M_{ab}
    - 2 (1 - \alpha) \, \mathrm{tr} \, \mathbf{M}_{\phi\psi}, \quad \mathbf{G} = \mathbf{M}_{xy}

with kappa = 4 and lambda = 1 for squared distances, 1 and 0 for kernels (whose signs enter the
norm). Its gradient is a matrix of low rank: minus :math:`\mathbf{Z} \mathbf{A} \mathbf{V}^T`.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from .factor import Factor

LOG2E = 1.4426950408889634


class Side(NamedTuple):
    """The points of one side."""

    z: Tensor  # [N, R] coordinates, squared norms, features
    log2_mass: Tensor  # [N], -inf for points without mass

    @property
    def num_points(self) -> int:
        """N."""
        return self.z.size(0)

    @property
    def mass(self) -> Tensor:
        """[N]."""
        return self.log2_mass.exp2()


@dataclass(frozen=True, eq=False)
class Coupling:
    """How moments [..., R, R'] become scores and energy."""

    kappa: float
    linear: Tensor  # [R, R'] what the scores have whatever the plan: squared norms, features
    fixed: Tensor  # [r, s] what known pairs add to the moments of the coordinates
    sign: Tensor  # [r, s] products of the signs of both kernels

    def coordinates(self, moments: Tensor) -> Tensor:
        """G [..., r, s], with what known pairs add."""
        rank, other = self.fixed.shape
        return moments[..., :rank, :other] + self.fixed

    def scores(self, moments: Tensor) -> Tensor:
        """A [..., R, R'], minus the gradient of the energy in the moments."""
        rank, other = self.fixed.shape
        total = self.linear.expand(*moments.shape[:-2], -1, -1).clone()
        total[..., :rank, :other] += 4 * self.kappa * self.sign * self.coordinates(moments)
        return total

    def energy(self, moments: Tensor) -> Tensor:
        """The objective of balanced plans without its constant [...]."""
        matched = self.coordinates(moments)
        quadratic = (self.sign * matched.square()).sum((-2, -1))
        return -2 * self.kappa * quadratic - (self.linear * moments).sum((-2, -1))


@dataclass(frozen=True, eq=False)
class Problem:
    """Two sides and their coupling; masses of a side have the sum one."""

    source: Side
    target: Side
    coupling: Coupling

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""
        return self.source.num_points, self.target.num_points

    def at(self, source: Side, target: Side) -> "Problem":
        """The same coupling between other points, such as cells."""
        return replace(self, source=source, target=target)

    def critical_epsilon(self) -> float:
        """Above it, the independent plan is the stable solution.

        Near it, T = p q (1 + z A z'), so that G -> 4 kappa cov(x) G cov(y) / epsilon.
        """
        rank, other = self.coupling.fixed.shape
        top = _top_variance(self.source, rank) * _top_variance(self.target, other)
        return 4 * self.coupling.kappa * top


def _top_variance(side: Side, rank: int) -> float:
    x = side.z[:, :rank].double()
    return float(torch.linalg.eigvalsh(x.T @ (side.mass.double()[:, None] * x))[-1])


class Prepared(NamedTuple):
    """A factor in its principal axes, centred and scaled."""

    x: Tensor  # [N, r]
    sign: Tensor  # [r]
    scale: float  # what x was divided by
    kind: str


def prepare_factor(factor: Factor, mass: Tensor) -> Prepared:
    """Turn a factor into its principal axes by mass, those of most variance first.

    Axes with less than 1e-7 of the largest standard deviation are rounding, and dropped. Then x is
    divided by the root of the Frobenius norm of its covariance, so that costs are of order one.
    """
    x = factor.x.detach().double()
    x = x - mass.double() @ x
    parts, signs = [], []
    for sign in (1.0, -1.0):
        axes = factor.signs == sign
        if bool(axes.any()):
            parts.append(_principal(x[:, axes], mass.double()))
            signs.append(torch.full_like(parts[-1][0], sign))
    x, sign_of = torch.cat(parts, 1), torch.cat(signs)
    variance = mass.double() @ x.square()
    keep = variance > 1e-14 * variance.max().clamp(min=torch.finfo(torch.float64).tiny)
    if not bool(keep.any()):
        keep[0] = True  # all points are one point: a column of zeros
    order = variance[keep].argsort(descending=True, stable=True)
    x, sign_of, variance = x[:, keep][:, order], sign_of[keep][order], variance[keep][order]
    scale = float(variance.square().sum().sqrt().sqrt()) or 1.0
    return Prepared((x / scale).to(factor.x.dtype), sign_of.to(factor.x), scale, factor.kind)


def _principal(x: Tensor, mass: Tensor) -> Tensor:
    """x in the eigenvectors of its covariance, each with a sign that its points decide."""
    _, axes = torch.linalg.eigh(x.T @ (mass[:, None] * x))
    turned = x @ axes
    skew = mass @ turned**3
    return turned * torch.where(skew < 0, -1.0, 1.0)


def squared_norms(x: Tensor, mass: Tensor) -> Tensor:
    """[N, 1] squared norms less their mean, in the type of x."""
    a = x.double().square().sum(1, keepdim=True)
    return (a - mass.double() @ a).to(x.dtype)


def make_problem(
    first: Prepared,
    second: Prepared,
    p: Tensor,
    q: Tensor,
    alpha: float = 1.0,
    features: tuple[Tensor, Tensor] | None = None,
    fixed: Tensor | None = None,
) -> Problem:
    """The problem of two prepared factors.

    Args:
        first: the source.
        second: the target.
        p: [N] masses.
        q: [K] masses.
        alpha: the weight of the structure; 1 - alpha is that of the features.
        features: [N, d] and [K, d] centred, of which squared distances are linear costs.
        fixed: [r, s] moments of known pairs.
    """
    z, v = [first.x], [second.x]
    rank, other = first.x.size(1), second.x.size(1)
    is_sqdist = first.kind == "sqdist"
    blocks: list[Tensor] = []
    if is_sqdist:
        z.append(squared_norms(first.x, p))
        v.append(squared_norms(second.x, q))
        blocks.append(4 * alpha * torch.ones(1, 1))
    if features is not None:
        z.append(features[0])
        v.append(features[1])
        blocks.append(2 * (1 - alpha) * torch.eye(features[0].size(1)))
    linear = torch.block_diag(torch.zeros(rank, other), *blocks).double().to(p.device)
    coupling = Coupling(
        (4.0 if is_sqdist else 1.0) * alpha,
        linear,
        torch.zeros_like(linear[:rank, :other]) if fixed is None else fixed.double(),
        (first.sign[:, None] * second.sign).double(),
    )
    return Problem(
        Side(torch.cat(z, 1).contiguous(), p.log2()),
        Side(torch.cat(v, 1).contiguous(), q.log2()),
        coupling,
    )
