r"""The problem: coordinates of both sides, and the map from their moments to scores.

With :math:`\mathbf{Z} = [\mathbf{x}, a, \phi]` and :math:`\mathbf{V} = [\mathbf{y}, b, \psi]` side
by side (coordinates, centred; squared norms less their mean; features) and the moments
:math:`\mathbf{M} = \mathbf{Z}^T \mathbf{T} \mathbf{V}`, the objective is

.. math::
    E(\mathbf{T}) = \mathrm{const} - 2 \kappa \alpha ||\mathbf{G}||^2 - 4 \lambda \alpha M_{ab}
    - 2 (1 - \alpha) \, \mathrm{tr} \, \mathbf{M}_{\phi\psi}, \quad \mathbf{G} = \mathbf{M}_{xy}

with kappa = 4 and lambda = 1 for squared distances, 1 and 0 for kernels (whose signs enter the
norm). Its gradient is a matrix of low rank: minus :math:`\mathbf{Z} \mathbf{A} \mathbf{V}^T`.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import torch
from torch import Tensor

from ..._random import seeded
from ...kernels.table import SINKHORN
from ..sinkhorn.loop import Pass, in_turn
from .prepare import AxisFactor, centred, squared_norms

LOG2E = 1.4426950408889634
FEW_AXES = 3  # a space of so few dimensions is described well by its principal axes

SMALL = 1 << 14  # pairs of points, 128 x 128: all masses are exact, and all starts are cooled

# Bits. Scores are sums of products with relative errors of 2^-23 in float32: beyond this, entries
# of the plan would be off by a per cent, and float64 is taken, up to its own limit, which leaves
# coordinates below the 2^40 that the kernels hold them within.
_SINGLE_BITS, _DOUBLE_BITS = 2.0**18, 2.0**38
_CODE = 32  # numbers that tell known pairs apart
_BINDING = 16.0  # times what scores can gain elsewhere: the cost of parting a known pair
FINAL_BITS = 2.0**10  # of the plan that is returned, whose marginals are known to 1e-4


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
    """Maps moments [..., R, R'] to scores and energy."""

    kappa: float
    linear: Tensor  # [R, R'] what the scores have whatever the plan: squared norms, features
    fixed: Tensor  # [r, s] added to the moments of the coordinates: means of kernels, known pairs
    signs: tuple[Tensor, Tensor]  # [r] and [s] of both kernels

    @property
    def sign(self) -> Tensor:
        """[r, s] products of the signs of both kernels."""
        return self.signs[0][:, None] * self.signs[1]

    def coordinates(self, moments: Tensor) -> Tensor:
        """Compute G [..., r, s]: the moments of the coordinates, plus the fixed part."""
        rank, other = self.fixed.shape
        return moments[..., :rank, :other] + self.fixed

    def scores(self, moments: Tensor) -> Tensor:
        """Compute A [..., R, R'], minus the gradient of the energy in the moments."""
        rank, other = self.fixed.shape
        total = self.linear.expand(*moments.shape[:-2], -1, -1).clone()
        total[..., :rank, :other] += 4 * self.kappa * self.sign * self.coordinates(moments)
        return total

    def energy(self, moments: Tensor) -> Tensor:
        """Compute the objective without its constant [...]."""
        matched = self.coordinates(moments)
        quadratic = (self.sign * matched.square()).sum((-2, -1))
        return -2 * self.kappa * quadratic - (self.linear * moments).sum((-2, -1))


@dataclass(frozen=True, eq=False)
class Problem:
    """Two sides and their coupling; masses of a side have the sum one."""

    source: Side
    target: Side
    coupling: Coupling
    means: tuple[Tensor, Tensor]  # [r] and [s] of kernels
    backend: str = "auto"  # of Sinkhorn's iteration

    @cached_property
    def one_pass(self) -> Pass:
        """Sinkhorn's pass over one or several plans."""
        return in_turn(SINKHORN.find(self.backend, self.source.z.device).sinkhorn_pass)

    @property
    def has_few_axes(self) -> bool:
        """True if principal axes describe a side well, in so few dimensions."""
        return min(self.coupling.fixed.shape) <= FEW_AXES

    @property
    def is_small(self) -> bool:
        """True if Newton's method finds potentials at once."""
        return self.shape[0] * self.shape[1] <= SMALL

    @property
    def has_saddle(self) -> bool:
        """True if p q^T is a saddle point at low temperature: descent stays there.

        The energy falls with the size of all moments, unless kernels are indefinite.
        """
        return bool((self.coupling.sign > 0).all())

    def bound(self, pairs: Tensor) -> "Problem":
        """Bind the points of known pairs [2, M]: these alone share a column, or a random code."""
        size = min(pairs.size(1), _CODE)
        code = torch.eye(size)
        if size < pairs.size(1):
            signs = torch.randint(2, (pairs.size(1), size), generator=seeded(0))
            code = (2.0 * signs - 1) / math.sqrt(size)
        sides = []
        for side, nodes in zip(self.sides, pairs, strict=True):
            column = side.z.new_zeros(side.num_points, size)
            column.index_add_(0, nodes, code.to(column))
            sides.append(Side(torch.cat([side.z, column], 1), side.log2_mass))
        weight = _BINDING * (max(self.critical_epsilon(), self.largest_given_score) or 1.0)
        linear = torch.block_diag(
            self.coupling.linear, weight * torch.eye(size).to(side.z).double()
        )
        return replace(self.at(*sides), coupling=replace(self.coupling, linear=linear))

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both sides."""
        return self.source, self.target

    @property
    def coordinates(self) -> tuple[Tensor, Tensor]:
        """X [N, r] and Y [K, s], without squared norms and features."""
        rank, other = self.coupling.fixed.shape
        return self.source.z[:, :rank], self.target.z[:, :other]

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""
        return self.source.num_points, self.target.num_points

    def at(self, source: Side, target: Side) -> "Problem":
        """Take the same coupling between other points, such as cells."""
        return replace(self, source=source, target=target)

    @cached_property
    def largest_score(self) -> float:
        """A bound of the scores of plans with the masses of the problem, without temperature."""
        z, v = self.source.z.double(), self.target.z.double()
        spread = [
            (mass.double() @ x.square()).sqrt()
            for x, mass in ((z, self.source.mass), (v, self.target.mass))
        ]
        # |M_ab| is at most the product of both deviations, by Cauchy and Schwarz.
        most = self.coupling.scores(spread[0][:, None] * spread[1]).abs()
        return float((z.abs() @ most @ v.abs().amax(0)).max())

    @property
    def largest_given_score(self) -> float:
        """A bound of the scores that do not depend on the plan, such as scores of features."""
        z, v = self.source.z.double(), self.target.z.double()
        return float((z.abs() @ self.coupling.linear.abs() @ v.abs().amax(0)).max())

    def critical_epsilon(self) -> float:
        """Find about the lowest temperature at which the independent plan is stable.

        Near it, T = p q (1 + z A z'), so that G -> 4 kappa cov(x) (G + m n^T) cov(y) / epsilon, of
        means m and n. Without these G is zero above 4 kappa times both top variances. With them
        it is not, and the plan is flat above the standard deviation of their part of the scores.
        """
        sides = [
            _covariance(x, side.mass) for x, side in zip(self.coordinates, self.sides, strict=True)
        ]
        first, second = (float(torch.linalg.eigvalsh(each)[-1]) for each in sides)
        largest = first * second
        left, right = (
            float(mean @ each @ mean) for mean, each in zip(self.means, sides, strict=True)
        )
        largest = max(largest, math.sqrt(max(left, 0.0)) * math.sqrt(max(right, 0.0)))
        return 4 * self.coupling.kappa * largest


def _covariance(x: Tensor, mass: Tensor) -> Tensor:
    mass = mass.double() / mass.double().sum()
    x, _ = centred(x.double(), mass)
    return second_moments(x, mass)


def second_moments(x: Tensor, mass: Tensor) -> Tensor:
    """Compute X^T diag(mass) X [..., r, r], float64, of masses [..., N]."""
    return (x.mT @ (mass[..., None].to(x) * x)).double()


def agreement(
    x: Tensor, y: Tensor, mass: Tensor, signs: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """Compare the costs of points with the costs of their partners, over all pairs: a cosine [N].

    `x` [N, r] are the points and `y` [N, s] their partners, in float64; `mass` [N] goes between
    them; `signs` [r] and [s] belong to both kernels.
    """
    together = x.mT @ (mass[:, None] * y)
    signed = (x, y) if signs is None else (x * signs[0], y * signs[1])
    product = ((signed[0] @ together) * signed[1]).sum(1)
    squares = [
        ((each @ second_moments(plain, mass)) * each).sum(1)
        for plain, each in zip((x, y), signed, strict=True)
    ]
    return product / (squares[0] * squares[1]).clamp(min=1e-30).sqrt()


def make_problem(
    first: AxisFactor,
    second: AxisFactor,
    p: Tensor,
    q: Tensor,
    alpha: float = 1.0,
    features: tuple[Tensor, Tensor] | None = None,
    feature_weight: float = 0.0,
    known: Tensor | None = None,
    backend: str = "auto",
) -> Problem:
    """Make the problem of two prepared factors and their masses.

    `alpha` weighs the structure, `feature_weight` squared distances of features [N, d] and [K, d];
    `known` [r, s] are moments of known pairs.
    """
    z, v = [first.x], [second.x]
    rank, other = first.x.size(1), second.x.size(1)
    is_sqdist = first.kind == "sqdist"
    eye = partial(torch.eye, dtype=torch.float32)  # whatever torch's default type is
    blocks: list[Tensor] = []
    if is_sqdist:
        z.append(squared_norms(first.x, p))
        v.append(squared_norms(second.x, q))
        blocks.append(4 * alpha * eye(1))
    if features is not None:
        size = max(float(each.abs().max()) for each in features) or 1.0
        feature_weight *= size**2  # of features of size one
        for side, given in zip((z, v), features, strict=True):
            side.append(given / size)
        blocks.append(2 * feature_weight * eye(features[0].size(1)))
    linear = torch.block_diag(torch.zeros(rank, other), *blocks).double().to(p.device)
    coupling = Coupling(
        (4.0 if is_sqdist else 1.0) * alpha,
        linear,
        first.mean[:, None] * second.mean + (0 if known is None else known.double()),
        (first.sign.double(), second.sign.double()),
    )
    return Problem(
        Side(torch.cat(z, 1).contiguous(), p.log2()),
        Side(torch.cat(v, 1).contiguous(), q.log2()),
        coupling,
        (first.mean, second.mean),
        backend,
    )


def resolved(
    problem: Problem, epsilon: float, unit: float, single_bits: float = _SINGLE_BITS
) -> Problem:
    """Choose the type that resolves the scores of a problem at a temperature.

    `unit` is one of its squared costs in the user's unit; up to `single_bits` float32 is enough.
    Raises a ValueError if float64 is not enough.
    """
    bits = problem.largest_score * LOG2E / epsilon
    if bits > _DOUBLE_BITS:
        smallest = epsilon * bits / _DOUBLE_BITS
        raise ValueError(
            f"Expected 'epsilon' to be at least {smallest * unit:.3g} in the unit of squared "
            f"costs, below which scores cannot be told apart (got {epsilon * unit:.3g})."
        )
    if bits <= single_bits or problem.source.z.dtype == torch.float64:
        return problem
    sides = (Side(*(each.double() for each in side)) for side in problem.sides)
    return problem.at(*sides)
