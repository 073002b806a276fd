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
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...kernels.sinkhorn import SinkhornPass
from ..plan.plan import Plan, Step
from ..plan.scores import FactoredScores, average
from ..problem.prepare import as_kernel, prepare_factor
from ..problem.problem import LOG2E, Problem, Side, make_problem, second_moments
from ..sinkhorn.loop import Pass
from .coarsening import in_cells
from .cooling import Solved
from .descent import Budget, State, begin, check_shape_of_start, make_kernel, scale
from .pose import Question
from .schedule import SCHEDULE, Run
from .starts import find_starts, points_of

_BEGIN = 0.15  # times the critical temperature: hotter plans leave whole groups out
_FAR = 50.0  # times the critical temperature: the cost of a pair of dummies
_LOST = 0.02  # marginal error
_NEAR = 0.01  # relative change of the moments
_LEAST_ALONE = 1e-7  # mass: less is rounding
_KEPT = (8, 4, 2)  # plans that go on after each temperature at which starts are compared
_UPDATES = 4  # of the sums at a temperature, but for the last
_BUDGET = Budget(tol=1e-4, passes=20, is_careful=True)
_FIRST = replace(_BUDGET, passes=100)  # of potentials that are not known
_LAST = replace(_BUDGET, tol=1e-5, passes=60)  # at the last temperature


class Partial(NamedTuple):
    """Two sides of which a share of the mass is sent."""

    problem: Problem  # balanced, of costs that are kernels
    totals: tuple[float, float]  # masses of both sides, of which the smaller is one
    mass: float  # that is sent
    total: float  # mass of all points and the dummies
    is_free: bool  # no column has a mass to meet
    num_features: int

    @property
    def own_costs(self) -> tuple[Tensor, Tensor]:
        """What features make a point pay for being sent, [N] and [K], whatever its partner."""
        (rank, other), count = self.problem.coupling.fixed.shape, self.num_features
        first, second = slice(rank, rank + count), slice(other, other + count)
        weight = self.problem.coupling.linear[first, second].diagonal() / 2
        source, target = self.problem.sides
        return source.z[:, first].square() @ weight, target.z[:, second].square() @ weight


class WithDummies(Problem):
    """The problem of all points and dummies; each pass over a plan sends the mass asked for."""

    @cached_property
    def one_pass(self) -> Pass:
        """Make Sinkhorn's pass, at the price of staying alone that leaves the right mass alone."""
        usual, both = super().one_pass, self.source.mass[-1] + self.target.mass[-1]

        def at_price(u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, y: Tensor) -> SinkhornPass:
            if g[-1] > -torch.inf:
                p, f = log2_p.exp2(), usual(u, v[:-1], g[:-1], log2_p, y[:-1, :0]).f
                # A row whose bound is below the price stays alone, near it with a part.
                bound = (log2_p - f - u @ v[-1])[:-1].nan_to_num()
                values, order = bound.sort()
                below = (p[order].cumsum(0) < both - p[-1]).sum().clamp(max=len(values) - 1)
                price = values[below]  # the exact one is a few bits away
                for power in range(5, -30, -1):
                    alone = p[:-1] @ (1 + (bound - price).exp2()).reciprocal()
                    price = price + 2.0**power * (1 - 2.0 * (alone > both - p[-1]))
                g = torch.cat([g[:-1], price[None]])
            done: SinkhornPass = usual(u, v, g, log2_p, y)
            return done

        return at_price


class Sums(NamedTuple):
    """What a plan's objective is made of; each is linear in the plan."""

    moments: Tensor  # [R, R'] of coordinates and features
    sent: Tensor  # [r, r] second moments of the coordinates of masses that leave
    received: Tensor  # [s, s] and of those that arrive
    costs: Tensor  # [1] of being sent, of all points


class Found(NamedTuple):
    """A plan between all points at one temperature."""

    sums: Sums
    psi: Tensor  # [K + 1] potentials of the columns, in bits
    done: SinkhornPass
    problem: Problem  # whose plan it is
    state: State  # that its scores are made of
    error: float  # marginal error
    moved: float  # relative change of the moments in the last step


def solve_partial(question: Question, problem: Problem, run: Run) -> Solved:
    """Find the best plan from the starts, or from another plan."""
    partial = _pose(question, run)
    starts = question.options.starts
    temperatures = [max(_BEGIN * run.critical, run.lowest)]
    while temperatures[-1] > run.lowest:
        temperatures.append(max(temperatures[-1] / SCHEDULE.cooling, run.lowest))
    if isinstance(starts, Plan):
        warm = SCHEDULE.restarted * run.critical
        cold = [each for each in temperatures if each < warm] or [run.lowest]
        found = _cool(partial, _sums_of_plan(partial, starts), cold, run)
    else:
        points = points_of(question.first), points_of(question.second)
        begun = [each.moments for each in find_starts(starts, partial.problem, points, run.seed)]
        cells = partial._replace(problem=in_cells(partial.problem, SCHEDULE.coarse, run.seed))
        found = _race(cells, begun, temperatures, run)
        if cells.problem.shape != partial.problem.shape:
            found = _cool(partial, found.sums, temperatures[-3:], run)
    kernel = make_kernel(found.problem, found.state)
    f = found.done.f + math.log2(partial.total)
    parts = kernel.u, kernel.v, f, kernel.bias + found.psi
    scores = FactoredScores(*(each[:-1].contiguous() for each in parts))  # without dummies
    return Solved(scores, run.lowest, found.error, found.moved)


def _pose(question: Question, run: Run) -> Partial:
    """Write both sides as kernels, in the unit of their costs."""
    p, q, share = question.p, question.q, question.options.mass
    first = as_kernel(prepare_factor(question.first, p), run.unit**0.25)
    second = as_kernel(prepare_factor(question.second, q), run.unit**0.25)
    weight = (1 - question.alpha) / run.unit
    problem = make_problem(
        first, second, p / p.sum(), q / q.sum(), question.alpha, question.features, weight, None,
        question.options.backend,
    )  # fmt: skip
    if question.known_pairs is not None:
        problem = problem.bound(question.known_pairs)
    totals, is_free = (float(p.sum()), float(q.sum())), share == "source"
    sent = 1.0 if is_free else float(share)
    count = 0 if question.features is None else question.features[0].size(1)
    total = sent if is_free else sum(totals) - sent
    return Partial(problem, totals, sent, total, is_free, count)


def _sums(partial: Partial, moments: Tensor, rows: Tensor, columns: Tensor) -> Sums:
    """Make sums of the moments of a plan, and of the masses [N] and [K] that it sends."""
    x, y = partial.problem.coordinates
    first, second = partial.own_costs
    costs = (rows @ first + columns @ second).reshape(1)
    return Sums(moments, second_moments(x, rows), second_moments(y, columns), costs)


def _sums_of_plan(partial: Partial, plan: Plan) -> Sums:
    """Make the sums of a plan between the same points."""
    check_shape_of_start(plan, partial.problem.shape)
    (rows, columns), (source, target) = plan.marginals(), partial.problem.sides
    share = partial.mass / rows.sum()
    moments = source.z.T @ average(plan.scores, target.z).double()
    return _sums(partial, share * moments, share * rows, share * columns)


def _race(partial: Partial, starts: list[Tensor], temperatures: list[float], run: Run) -> Found:
    """Find the best plan from starts [R, R']: of those that differ, few stay in the race."""
    # All points send alike.
    rows, columns = (partial.mass * side.mass for side in partial.problem.sides)
    plans = [_sums(partial, partial.mass * moments, rows, columns) for moments in starts]
    hot, short = temperatures[: len(_KEPT)], Run(0.0, run.critical, run.tol, max_iter=3)
    for epsilon, count in zip(hot, _KEPT[-len(hot) :], strict=True):
        found = [_cool(partial, each, [epsilon], short) for each in plans]
        found.sort(key=lambda each: objective(partial, each.sums))
        plans = list[Sums]()
        for each in found:
            apart = [float((each.sums.moments - other.moments).norm()) for other in plans]
            if not apart or min(apart) > SCHEDULE.same * float(each.sums.moments.norm()):
                plans.append(each.sums)
        plans = plans[:count]
    found = [_cool(partial, each, temperatures[len(hot) - 1 :], run) for each in plans]
    return min(found, key=lambda each: objective(partial, each.sums))


def _cool(partial: Partial, sums: Sums, temperatures: list[float], run: Run) -> Found:
    """Bring a plan to the last temperature, and work on it there for some updates."""
    psi = before = torch.zeros(())  # before: the prices of the columns of the last problem
    first: Budget | None = _FIRST
    stage = "{} x {}".format(*partial.problem.shape)
    for epsilon in temperatures:
        entropy = None
        is_last = epsilon == temperatures[-1]
        usual = _LAST if is_last else _BUDGET
        for _ in range(run.max_iter if is_last else _UPDATES):
            problem = _linear(partial, sums, run.critical)
            price = LOG2E * problem.target.z[:, -2]
            # What a column costs more, its potential makes up for.
            psi = torch.zeros_like(price) if partial.is_free else psi + price - before
            found = _solve(partial, problem, sums, psi, epsilon, first or usual)
            psi, before, first = found.psi * epsilon, price, None
            if found.error > _LOST:
                continue  # of the same problem: its plan says nothing yet
            now = _entropy(partial, found)
            entropy = now if entropy is None else entropy
            # Near the end of a line lies the rounding of marginal errors.
            slope = partial.mass * epsilon * (now - entropy)
            length = 1.0 if found.moved < _NEAR else _line_search(partial, sums, found.sums, slope)
            sums = Sums(*(a + length * (b - a) for a, b in zip(sums, found.sums, strict=True)))
            entropy += length * (now - entropy)
            if found.moved < run.tol or length == 0:
                break
        sharpness = float(found.done.peak @ found.problem.source.mass)
        run.report(Step(stage, epsilon, objective(partial, sums), found.error, sharpness))
    return found


def _solve(
    partial: Partial, problem: Problem, sums: Sums, psi: Tensor, epsilon: float, budget: Budget
) -> Found:
    """Solve a linear problem at a temperature, and measure its plan."""
    total, x, y = partial.total, partial.problem.source.z, partial.problem.target.z
    state = begin(problem, pad(sums.moments / total, (0, 3, 0, 3)), psi.new_tensor(epsilon))
    kernel, error = make_kernel(problem, state), 0.0
    if partial.is_free:  # rows alone have masses to meet: one pass is all
        done = problem.one_pass(kernel.u, kernel.v, kernel.bias, kernel.log2_p, problem.target.z)
    else:
        scaled = scale(problem, replace(state, psi=psi), budget)
        done, psi, error = scaled.done, scaled.psi, float(scaled.error)
        if kernel.bias[-1] > -torch.inf:  # the price of that pass, in the row that is most alone
            row = done.average[:-1, -1].argmax()
            price = done.average[row, -1].log2() - done.f[row] - kernel.u[row] @ kernel.v[-1]
            psi = torch.cat([psi[:-1], (price - kernel.bias[-1])[None]])
    average = total * done.average[:-1].double()
    rows = average[:, y.size(1)].clamp(min=0)  # the share that no dummy has
    dummy = (done.f[-1] + problem.target.log2_mass + psi).exp2()
    columns = (total * (done.column_mass - dummy)[:-1]).clamp(min=0)
    moments = x.T @ average[:, : y.size(1)]
    rank, other = partial.problem.coupling.fixed.shape
    size = sums.moments[:rank, :other].norm().clamp(min=1e-30)
    moved = float((moments - sums.moments)[:rank, :other].norm() / size)
    return Found(_sums(partial, moments, rows, columns), psi, done, problem, state, error, moved)


def _entropy(partial: Partial, found: Found) -> float:
    """Compute sum T ln T of a plan, of points and dummies."""
    problem, done = found.problem, found.done
    scores = problem.coupling.scores(found.state.moments) / found.state.epsilon
    linear = (scores * (problem.source.z.T @ done.average)).sum()
    columns = done.column_mass, problem.target.log2_mass + found.psi
    for mass, potential in ((problem.source.mass, done.f), columns):
        linear = linear + (mass @ torch.where(mass > 0, potential, 0)) / LOG2E
    return float(linear) * partial.total


def _line_search(partial: Partial, sums: Sums, end: Sums, entropy: float) -> float:
    """Find how far to go from one plan to another, in [0, 1]; `entropy` grows along the line."""
    step = Sums(*(b - a for a, b in zip(sums, end, strict=True)))
    square = _product(partial, step, step)
    slope = 2 * _product(partial, sums, step) + _linear_cost(partial, step) + entropy
    if square <= 0:
        return 1.0 if square + slope <= 0 else 0.0
    return min(max(-slope / (2 * square), 0.0), 1.0)


def objective(partial: Partial, sums: Sums) -> float:
    """Compute the objective of a plan."""
    return _product(partial, sums, sums) + _linear_cost(partial, sums)


def _product(partial: Partial, first: Sums, second: Sums) -> float:
    """Compute the bilinear form of the quadratic part of the objective."""
    coupling = partial.problem.coupling
    left, right = coupling.signs
    crossed = (first.moments * second.moments)[: len(left), : len(right)]
    return coupling.kappa * float(
        left @ (first.sent * second.sent) @ left
        + right @ (first.received * second.received) @ right
        - 2 * left @ crossed @ right
    )


def _linear_cost(partial: Partial, sums: Sums) -> float:
    """Compute the linear part of the objective, that of features."""
    return float(sums.costs - (partial.problem.coupling.linear * sums.moments).sum())


def _linear(partial: Partial, sums: Sums, critical: float) -> Problem:
    """Make the problem of all points and dummies that is linear around a plan.

    Its z has three columns more: what a point costs, ones for the other side's, and the dummy.
    """
    problem, mass = partial.problem, partial.mass
    coupling, own, totals = problem.coupling, partial.own_costs, partial.totals
    prices, wide = [], []
    for x, second, signs, cost in zip(
        problem.coordinates, (sums.sent, sums.received), coupling.signs, own, strict=True
    ):
        squares = ((x @ (signs[:, None] * second * signs)) * x).sum(1)
        prices.append((2 * coupling.kappa * squares + cost) / mass)
    # About what is paid: a pair of a point and a dummy costs nothing.
    paid = [float(side.mass @ each) for side, each in zip(problem.sides, prices, strict=True)]
    for index, side in enumerate(problem.sides):
        price = (prices[index] - sum(paid) / 4)[:, None]
        columns = [price, torch.ones_like(price)]
        z = pad(torch.cat([side.z, *columns[:: 1 - 2 * index]], 1), (0, 1, 0, 1))
        z[-1, -1] = 1
        alone = 0.0 if partial.is_free else totals[1 - index] - mass
        alone = alone if alone > _LEAST_ALONE else 0.0
        both = torch.cat([totals[index] * side.mass, side.mass.new_tensor([alone])])
        wide.append(Side(z, (both / partial.total).log2()))
    minus = -coupling.linear.new_ones(1, 1)
    linear = torch.block_diag(coupling.linear / mass, minus, minus, _FAR * critical * minus)
    kappa = coupling.kappa * partial.total / mass
    coupling = replace(coupling, kappa=kappa, linear=linear)
    return WithDummies(wide[0], wide[1], coupling, problem.means, problem.backend)
