r"""Plans that leave points alone, where sides do not hold the same things.

A share m of the mass is sent, at most p from a point and q to one. What stays alone goes to one
more point of the other side, a dummy; no mass goes from dummy to dummy (Chapel, Alaya and Gasso,
"Partial optimal transport with applications on positive-unlabeled learning", NeurIPS 2020, 3.2).

Here the sums r and c of rows and columns are free, and so are the squares in the objective

.. math::
    E(\mathbf{T}) = r^T C^{\circ 2} r + c^T D^{\circ 2} c - 2 \langle \mathbf{C} \mathbf{T}
    \mathbf{D}, \mathbf{T} \rangle.

Costs are written as kernels, :math:`C = \tilde{X} \Sigma \tilde{X}^T`: E is a quadratic function of
:math:`\tilde{X}^T \mathbf{T} \tilde{Y}` and of the second moments of both sides by r and c. A step
solves the problem that is linear around them (with its entropy) by Sinkhorn's iteration, and goes
as far towards its plan as a search along the line says, which is exact but for the entropy
(Rakotomamonjy, Flamary and Courty, "Generalized conditional gradient", 2015).
"""

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ...kernels.sinkhorn import SinkhornPass
from ..plan.plan import Plan
from ..plan.scores import FactoredScores, average
from ..problem.prepare import Prepared
from ..problem.problem import LOG2E, Coupling, Problem, Side, second_moments
from .coarsening import coarsen
from .descent import Effort, State, begin, check_shape_of_start, make_kernel, scale
from .schedule import SCHEDULE

_FAR = 50.0  # times the critical temperature: the cost of a pair of dummies
_LOST = 0.02  # marginal error
_NEAR = 0.01  # relative change of the moments
_LEAST_ALONE = 1e-7  # mass: less is rounding
_HOT = 3  # temperatures at which starts are compared
_KEPT = (8, 4)  # plans that go on after each, and two to the end
_UPDATES = 4  # of the sums at a temperature, but for the last
_EFFORT = Effort(tol=1e-4, passes=20, is_careful=True)
_FIRST = replace(_EFFORT, passes=100)  # of potentials that are not known
_LAST = replace(_EFFORT, tol=1e-5, passes=60)  # at the last temperature


class Partial(NamedTuple):
    """Two sides of which a share of the mass is sent.

    A side's z has the coordinates of a kernel, features, and a cost of being sent.
    """

    source: Side  # of masses p, the most that points send
    target: Side
    signs: tuple[Tensor, Tensor]  # [R] and [R'] of the kernels
    alpha: float  # weight of the kernels
    feature_weight: float
    mass: float  # that is sent
    is_free: bool  # no column has a mass to meet
    critical: float
    backend: str

    @property
    def ranks(self) -> tuple[int, int]:
        """R and R'."""
        return len(self.signs[0]), len(self.signs[1])

    @property
    def total(self) -> float:
        """The mass of all points and the dummies."""
        both = float(self.source.mass.sum() + self.target.mass.sum())
        return self.mass if self.is_free else both - self.mass


class Sums(NamedTuple):
    """What a plan's objective is made of; each is linear in the plan."""

    moments: Tensor  # [R + F, R' + F] of coordinates and features
    sent: Tensor  # [R, R] second moments of the masses that leave
    received: Tensor  # [R', R'] and of those that arrive
    costs: Tensor  # [1] of being sent, of all points


class Found(NamedTuple):
    """A plan between all points at one temperature."""

    sums: Sums
    psi: Tensor  # [K + 1] potentials of the columns, in bits
    f: Tensor  # [N + 1] and of the rows
    rows: Tensor  # [N] the masses that leave
    columns: Tensor  # [K] and those that arrive
    problem: Problem  # whose plan it is
    state: State  # that its scores are made of
    error: float  # marginal error
    moved: float  # relative change of the moments in the last step
    entropy: float  # sum T ln T, of points and dummies


def as_kernel(side: Prepared, unit: float) -> tuple[Tensor, Tensor]:
    """Write costs, divided by a unit, as a kernel: coordinates [N, R] and their signs [R].

    Of squared distances, |x - y|^2 = a + b - 2 x.y for the squared norms a and b, and a + b =
    ((a + 1)(b + 1) - (a - 1)(b - 1)) / 2, here with another number than one.
    """
    x = side.x.double() * (side.scale / math.sqrt(unit))
    if side.kind == "kernel":
        return x + side.mean * (side.scale / math.sqrt(unit)), side.sign.double()
    a = x.square().sum(1, keepdim=True)
    # Then the two columns vary as much as the others.
    one = (a.std(correction=0) / x.square().mean(0).max().clamp(min=1e-30)).sqrt().clamp(min=1e-3)
    pair = math.sqrt(0.5) * torch.cat([a / one + one, a / one - one], 1)
    signs = torch.cat([-torch.ones_like(x[0]), pair.new_tensor([1.0, -1.0])])
    return torch.cat([math.sqrt(2) * x, pair], 1), signs


def balanced(partial: Partial) -> Problem:
    """Make the balanced problem between the same points, for starts."""
    rank, other = partial.ranks
    nothing = partial.source.z.new_zeros(rank, other)
    source, target = (
        Side(side.z[:, :count], (side.mass / side.mass.sum()).log2())
        for side, count in ((partial.source, rank), (partial.target, other))
    )
    means = nothing[:, 0], nothing[0]
    coupling = Coupling(1.0, nothing, nothing, partial.signs)
    return Problem(source, target, coupling, means, partial.backend)


def in_cells(partial: Partial, size: int, seed: int) -> Partial:
    """Group the points of both sides into cells."""
    rank, other = partial.ranks
    source = coarsen(partial.source, rank, size, seed)
    return partial._replace(source=source, target=coarsen(partial.target, other, size, seed + 1))


def sums_of_start(partial: Partial, moments: Tensor) -> Sums:
    """Make sums of the moments [R, R'] of a plan of mass one; all points send alike."""
    rank, other = partial.ranks
    shares = [
        side.mass * (partial.mass / side.mass.sum()) for side in (partial.source, partial.target)
    ]
    x, y = partial.source.z, partial.target.z
    wide = x.new_zeros(x.size(1) - 1, y.size(1) - 1)
    wide[:rank, :other] = partial.mass * moments
    means = [side.mass @ side.z / side.mass.sum() for side in (partial.source, partial.target)]
    wide[rank:, other:] = partial.mass * torch.outer(means[0][rank:-1], means[1][other:-1])
    return Sums(
        wide,
        second_moments(x[:, :rank], shares[0]),
        second_moments(y[:, :other], shares[1]),
        (shares[0] @ x[:, -1] + shares[1] @ y[:, -1]).reshape(1),
    )


def sums_of_plan(partial: Partial, plan: Plan) -> Sums:
    """Make the sums of a plan between the same points."""
    x, y = partial.source.z, partial.target.z
    check_shape_of_start(plan, (len(x), len(y)))
    (rank, other), (rows, columns) = partial.ranks, plan.marginals()
    share = partial.mass / rows.sum()
    return Sums(
        share * (x[:, :-1].T @ average(plan.scores, y[:, :-1]).double()),
        second_moments(x[:, :rank], share * rows),
        second_moments(y[:, :other], share * columns),
        share * (rows @ x[:, -1] + columns @ y[:, -1]).reshape(1),
    )


def cooling_to(lowest: float, begin: float) -> list[float]:
    """List temperatures from a hot one down to the last."""
    found = [max(SCHEDULE.hot_partial * begin, lowest)]
    while found[-1] > lowest:
        found.append(max(found[-1] / SCHEDULE.cooling, lowest))
    return found


def warm(temperatures: list[float], critical: float) -> list[float]:
    """Choose the temperatures at which a plan can go on from another one."""
    cool = [each for each in temperatures[:-1] if each < SCHEDULE.restarted * critical]
    return [*cool, temperatures[-1]]


def scores_of(partial: Partial, found: Found) -> FactoredScores:
    """Make the scores of a plan between the points, without dummies."""
    kernel = make_kernel(found.problem, found.state)
    f = found.f + math.log2(partial.total)
    g = kernel.bias + found.psi
    return FactoredScores(*(each[:-1].contiguous() for each in (kernel.u, kernel.v, f, g)))


def cool(
    partial: Partial, sums: Sums, temperatures: list[float], updates: int, tol: float
) -> Found:
    """Bring a plan to the last temperature, and work on it there for some updates."""
    psi: Tensor | None = None
    price: Tensor | None = None
    for epsilon in temperatures:
        entropy = None
        is_last = epsilon == temperatures[-1]
        for _ in range(updates if is_last else _UPDATES):
            problem = _linear(partial, sums)
            before, price = price, LOG2E * problem.target.z[:, -2]
            if partial.is_free:
                psi = torch.zeros_like(price)
            else:  # what a column costs more, its potential makes up for
                psi = price if psi is None or before is None else psi + price - before
            effort = _FIRST if before is None else _LAST if is_last else _EFFORT
            found = _solve(partial, problem, sums, psi, epsilon, effort)
            psi = found.psi * epsilon
            if found.error > _LOST:
                continue  # of the same problem: its plan says nothing yet
            entropy = found.entropy if entropy is None else entropy
            # Near the end of a line lies the rounding of marginal errors.
            is_near = found.moved < _NEAR
            length = 1.0 if is_near else _line_search(partial, sums, found, entropy, epsilon)
            sums = Sums(*(a + length * (b - a) for a, b in zip(sums, found.sums, strict=True)))
            entropy += length * (found.entropy - entropy)
            if found.moved < tol or length == 0:
                break
    return found


def race(
    partial: Partial, starts: list[Tensor], temperatures: list[float], updates: int, tol: float
) -> Found:
    """Find the best plan from starts [R, R']: of those that differ, few stay in the race."""
    plans = [sums_of_start(partial, moments) for moments in starts]
    hot = temperatures[:_HOT]
    for epsilon, count in zip(hot, (*_KEPT, 2)[-len(hot) :], strict=True):
        found = [cool(partial, each, [epsilon], 3, tol) for each in plans]
        found.sort(key=lambda each: objective(partial, each.sums))
        plans = list[Sums]()
        for each in found:
            apart = [float((each.sums.moments - other.moments).norm()) for other in plans]
            if not apart or min(apart) > SCHEDULE.same * float(each.sums.moments.norm()):
                plans.append(each.sums)
        plans = plans[:count]
    rest = temperatures[len(hot) - 1 :]
    found = [cool(partial, each, rest, updates, tol) for each in plans]
    return min(found, key=lambda each: objective(partial, each.sums))


def objective(partial: Partial, sums: Sums) -> float:
    """Compute the objective of a plan."""
    return _product(partial, sums, sums) + _linear_cost(partial, sums)


def _solve(
    partial: Partial, problem: Problem, sums: Sums, psi: Tensor, epsilon: float, effort: Effort
) -> Found:
    """Solve a linear problem at a temperature, and measure its plan."""
    (rank, other), total = partial.ranks, partial.total
    state = begin(problem, _widened(sums.moments / total, 3), psi.new_tensor(epsilon))
    if partial.is_free:  # rows alone have masses to meet: one pass is all
        kernel, error = make_kernel(problem, state), 0.0
        done = problem.one_pass(kernel.u, kernel.v, kernel.bias, kernel.log2_p, problem.target.z)
    else:
        scaled = scale(problem, replace(state, psi=psi), effort)
        done, psi, error = scaled.done, scaled.psi, float(scaled.error)
    x, y = partial.source.z, partial.target.z
    average = total * done.average.double()
    rows = average[:-1, y.size(1) - 1].clamp(min=0)  # the share that no dummy has
    dummy = (done.f[-1] + problem.target.log2_mass + psi).exp2()
    columns = (total * (done.column_mass - dummy)[:-1]).clamp(min=0)
    moments = x[:, :-1].T @ average[:-1, : y.size(1) - 1]
    found = Sums(
        moments,
        second_moments(x[:, :rank], rows),
        second_moments(y[:, :other], columns),
        (rows @ x[:, -1] + columns @ y[:, -1]).reshape(1),
    )
    size = sums.moments[:rank, :other].norm().clamp(min=1e-30)
    moved = float((moments - sums.moments)[:rank, :other].norm() / size)
    return Found(
        found, psi, done.f, rows, columns, problem, state, error, moved,
        _entropy(problem, state, done, psi) * total,
    )  # fmt: skip


def _entropy(problem: Problem, state: State, done: SinkhornPass, psi: Tensor) -> float:
    """Compute sum T ln T of a plan of scores, of points and dummies, over their total mass."""
    scores = problem.coupling.scores(state.moments) / state.epsilon
    linear = (scores * (problem.source.z.T @ done.average)).sum()
    potentials = (problem.source.mass, done.f), (
        done.column_mass, problem.target.log2_mass + psi
    )  # fmt: skip
    for mass, potential in potentials:
        linear = linear + (mass @ torch.where(mass > 0, potential, 0)) / LOG2E
    return float(linear)


def _line_search(
    partial: Partial, sums: Sums, found: Found, entropy: float, epsilon: float
) -> float:
    """Find how far to go from one plan to another, in [0, 1]."""
    step = Sums(*(b - a for a, b in zip(sums, found.sums, strict=True)))
    square = _product(partial, step, step)
    slope = 2 * _product(partial, sums, step) + _linear_cost(partial, step)
    slope += partial.mass * epsilon * (found.entropy - entropy)
    if square <= 0:
        return 1.0 if square + slope <= 0 else 0.0
    return min(max(-slope / (2 * square), 0.0), 1.0)


def _product(partial: Partial, first: Sums, second: Sums) -> float:
    """Compute the bilinear form of the quadratic part of the objective."""
    (left, right), (rank, other) = partial.signs, partial.ranks
    crossed = (first.moments * second.moments)[:rank, :other]
    return partial.alpha * float(
        left @ (first.sent * second.sent) @ left
        + right @ (first.received * second.received) @ right
        - 2 * left @ crossed @ right
    )


def _linear_cost(partial: Partial, sums: Sums) -> float:
    """Compute the linear part of the objective, that of features."""
    rank, other = partial.ranks
    alike = sums.moments[rank:, other:].diagonal().sum()
    return float(sums.costs - 2 * partial.feature_weight * alike)


def _widened(moments: Tensor, count: int) -> Tensor:
    return torch.nn.functional.pad(moments, (0, count, 0, count))


def _linear(partial: Partial, sums: Sums) -> Problem:
    """Make the problem of all points and dummies that is linear around a plan.

    Its z has three columns more: what a point costs, ones for the other side's, and the dummy.
    """
    rank, other = partial.ranks
    total, mass = partial.total, partial.mass
    features = partial.source.z.size(1) - 1 - rank
    prices = []
    for side, second, signs in (
        (partial.source, sums.sent, partial.signs[0]),
        (partial.target, sums.received, partial.signs[1]),
    ):
        x = side.z[:, : len(signs)]
        squares = ((x @ (signs[:, None] * second * signs)) * x).sum(1)
        prices.append((2 * partial.alpha * squares + side.z[:, -1]) / mass)
    # About what is paid: a pair of a point and a dummy costs nothing.
    level = sum(float(side.mass @ each / side.mass.sum()) for side, each in
                zip((partial.source, partial.target), prices, strict=True)) / 4  # fmt: skip
    masses = partial.source.mass, partial.target.mass
    sides = []
    for index, side in enumerate((partial.source, partial.target)):
        ones, price = torch.ones_like(side.z[:, :1]), (prices[index] - level)[:, None]
        z = torch.cat([side.z[:, :-1], *((price, ones) if index == 0 else (ones, price))], 1)
        z = _widened(z, 1)
        z[-1, -1] = 1
        alone = 0.0 if partial.is_free else float(masses[1 - index].sum()) - mass
        alone = alone if alone > _LEAST_ALONE else 0.0
        both = torch.cat([masses[index], masses[index].new_tensor([alone])]) / total
        sides.append(Side(z, both.log2()))
    eye = torch.eye(features, dtype=torch.float64) * (2 * partial.feature_weight / mass)
    minus = -torch.ones(1, 1, dtype=torch.float64)
    linear = torch.block_diag(torch.zeros(rank, other), eye, minus, minus,
                              _FAR * partial.critical * minus).double()  # fmt: skip
    nothing = side.z.new_zeros(rank, other)
    coupling = Coupling(partial.alpha * total / mass, linear.to(nothing), nothing, partial.signs)
    means = nothing[:, 0], nothing[0]
    return Problem(sides[0], sides[1], coupling, means, partial.backend)
