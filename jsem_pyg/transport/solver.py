"""Gromov-Wasserstein transport, from what a user hands over to the plan."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from ..kernels.table import SINKHORN
from .descent import State, column_potential, in_turn, plan_pass, row_vectors
from .factor import Factor
from .inputs import (
    as_factor,
    check_kinds,
    check_known_pairs,
    read_features,
    read_masses,
    read_start_names,
)
from .objective import cross_cost, feature_cost, squared_cost
from .options import Options
from .plan import Plan, Step
from .prepare import Prepared, as_kernels, prepare_factor
from .problem import Problem, make_problem
from .pyramid import Schedule, descend
from .resolution import resolved
from .scores import FactoredScores, Scores, average, column_sums, row_sums
from .starts import STARTS, Points, Start, find_starts
from .watching import descent_bar, in_units

logger = logging.getLogger(__name__)

_KNOWN_WEIGHT = 1.0  # of known pairs, as a share of all mass


def gromov_wasserstein(
    source: Any,
    target: Any,
    *,
    cost: Any = None,
    p: Tensor | None = None,
    q: Tensor | None = None,
    epsilon: float = 0.01,
    absolute: bool = False,
    features: tuple[Tensor, Tensor] | None = None,
    alpha: float = 0.5,
    known_pairs: Tensor | None = None,
    marginals: str = "balanced",
    rho: float = 0.05,
    mass: float = 0.9,
    coarse: int = 300,
    starts: Sequence[str] | Plan | None = None,
    tol: float = 1e-3,
    max_iter: int = 20,
    seed: int = 0,
    backend: str = "auto",
    progress: bool = True,
) -> Plan:
    r"""Find which points of two spaces correspond, from the costs inside each of them alone.

    .. math::
        \min_{\mathbf{T}} \; \alpha \sum_{ijkl} |C_{ik} - D_{jl}|^2 T_{ij} T_{kl}
        + (1 - \alpha) \sum_{ij} |\phi_i - \psi_j|^2 T_{ij}
        + \epsilon \, \mathrm{KL}(\mathbf{T} \,|\, \mathbf{p} \mathbf{q}^T)

    where alpha is one without features. The costs are factored, so the plan is never stored: a
    step takes O(N K r) time and O((N + K) r) memory. The problem has many local optima, and the
    start decides; so several are raced on a few hundred quantised points while the temperature
    falls, and the best goes on among all points.

    Args:
        source: N points: a :class:`Factor`, a :class:`~torch_geometric.data.Data`, or coordinates
            [N, r].
        target: K points, of another space; the same kind of cost.
        cost: what makes a factor of a `Data` or of coordinates, such as ``HeatCost(t=2.0)``. None:
            centred inner products of coordinates, which say what squared distances say, and
            mislead less where lengths disagree; for a `Data` without them, ``HeatCost()``.
        p: [N] masses of the source with sum one; None: the same for all. Points may have none.
        q: [K] masses of the target.
        epsilon: the temperature at the end, as a share of the critical one, above which all goes
            everywhere. Small ones give sharp plans. Cooling ends before where rows are so sharp
            that a colder plan would be the same; :attr:`Plan.epsilon` is what was reached.
        absolute: whether `epsilon` is in the unit of squared costs instead, and is reached whatever
            happens; and `rho` likewise.
        features: [N, d] and [K, d] in one space, whose squared distances are linear costs: fused
            Gromov-Wasserstein (Vayer et al. 2019).
        alpha: in (0, 1), the weight of the structure beside features.
        known_pairs: [2, M] pairs of a source and a target point that are known to correspond. They
            pull as if all mass once more went from the ones to the others.
        marginals: "balanced": all mass leaves and arrives as p and q say. "semirelaxed": target
            points may get any mass, up to a penalty `rho` KL(c | q). "unbalanced": source points as
            well, with `rho` KL(r | p). "partial": only a part `mass` of the mass is sent.
        rho: the penalty, as a share of the critical temperature, or absolute; 0 is none.
        mass: in (0, 1), for partial transport.
        coarse: the number of cells that starts are raced on.
        starts: some of "heat" (points from which heat spreads alike on neighbour graphs), "costs"
            (points whose costs are distributed alike), "axes" (principal axes, with all signs),
            "zero" (the independent plan); or a plan to go on from. None: all; without "heat" where
            one side has no more than three dimensions.
        tol: of the marginal error sum |c - q|, and of the relative change of a solution in a step.
        max_iter: steps at the last temperature, after which it is a warning not to have converged.
        seed: of samples and quantisation.
        backend: "reference", "torch", "numba", "triton" or "auto".
        progress: show a bar, where there is a terminal to show it in.

    Returns:
        The plan; its `cost` is the objective without the entropy, in the unit of squared costs.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if one is out of range, shapes do not fit, masses do not sum to one, the costs
            are of different kinds, or `epsilon` is too small to be resolved.

    Source: Peyré, Cuturi and Solomon, "Gromov-Wasserstein averaging of kernel and distance
    matrices", ICML 2016 (the entropic problem); Scetbon, Peyré and Cuturi, "Linear-time
    Gromov-Wasserstein distances using low rank couplings and costs", ICML 2022 (factored costs).

    Example:
        >>> x = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0], [4.0, 2.0], [-2.0, 2.0]])
        >>> turned = x.flip(0) @ torch.tensor([[0.6, 0.8], [-0.8, 0.6]])
        >>> gromov_wasserstein(x, turned, progress=False).argmax()
        tensor([4, 3, 2, 1, 0])
    """
    options = Options(
        epsilon, absolute, alpha, marginals, rho, mass, coarse, tol, max_iter, seed, progress
    )
    options.check()
    first, second = as_factor("source", source, cost), as_factor("target", target, cost)
    check_kinds(first, second)
    masses = read_masses("p", p, first), read_masses("q", q, second)
    if features is not None:
        features = read_features(features, first, second)
    if known_pairs is not None:
        check_known_pairs(known_pairs, first, second)
    if starts is not None and not isinstance(starts, Plan):
        starts = read_start_names(starts, STARTS)
    task = Task(first.detach(), second.detach(), *masses, features, known_pairs, options)
    return task.solve(starts, SINKHORN.find(backend, first.x.device).sinkhorn_pass)


@dataclass(frozen=True, eq=False)
class Task:
    """One problem in the user's units."""

    first: Factor
    second: Factor
    p: Tensor
    q: Tensor
    features: tuple[Tensor, Tensor] | None
    known_pairs: Tensor | None
    options: Options

    @property
    def alpha(self) -> float:
        """The weight of the structure."""
        return 1.0 if self.features is None else self.options.alpha

    def solve(self, starts: tuple[str, ...] | Plan | None, one_pass: Any) -> Plan:
        """The best plan that the starts lead to."""
        options = self.options
        prepared = self._prepare()
        # A squared cost of the problem is that many squared costs of the user.
        unit = (prepared[0].scale * prepared[1].scale) ** 2
        problem = self._problem(prepared, unit)
        critical = problem.critical_epsilon() or 1.0
        share = 1 / unit if options.absolute else critical
        problem = replace(problem, relaxation=options.relaxation(share))
        lowest = options.epsilon * share
        problem = resolved(problem, lowest, unit)
        steps: list[Step] = []
        schedule = Schedule(
            lowest, critical, options.tol, options.coarse, options.seed, options.max_iter,
            not options.absolute,
        )  # fmt: skip
        with descent_bar(options.progress) as advance:
            found = self._starts(starts, problem, one_pass)
            if not found:
                raise ValueError(
                    "Expected 'starts' to have more than 'zero' (got it alone): the independent "
                    "plan of centred kernels is a saddle point, which no descent leaves. To fix "
                    "this, add 'axes', or leave 'starts' out."
                )

            def report(step: Step) -> None:
                steps.append(in_units(step, unit))
                advance(steps[-1])

            state = descend(problem, found, schedule, in_turn(one_pass), report)
            # Of the last potentials and moments: its rows have exactly their masses.
            nothing = problem.target.z[:, :0]
            last = plan_pass(problem, state, nothing, in_turn(one_pass))
        return self._plan(problem, replace(state, f=last.f), steps, unit)

    def _prepare(self) -> tuple[Prepared, Prepared]:
        if self.options.marginals == "balanced":
            return prepare_factor(self.first, self.p), prepare_factor(self.second, self.q)
        return as_kernels(self.first, self.second, self.p, self.q)

    def _problem(self, prepared: tuple[Prepared, Prepared], unit: float) -> Problem:
        known = None
        if self.known_pairs is not None:
            pairs = zip(prepared, self.known_pairs, strict=True)
            x, y = (each.x[index].double() for each, index in pairs)
            known = _KNOWN_WEIGHT / self.known_pairs.size(1) * x.T @ y
        return make_problem(
            *prepared, self.p, self.q, self.alpha, self.features, (1 - self.alpha) / unit, known
        )

    def _starts(
        self, starts: tuple[str, ...] | Plan | None, problem: Problem, one_pass: Any
    ) -> list[Start]:
        if isinstance(starts, Plan):
            if starts.shape != problem.shape:
                raise ValueError(
                    f"Expected 'starts' to be a plan of {problem.shape[0]} x {problem.shape[1]} "
                    f"points (got {starts.shape[0]} x {starts.shape[1]})."
                )
            moments = problem.source.z.T @ average(starts.scores, problem.target.z)
            return [Start("plan", moments.double())]
        points = _points(self.first), _points(self.second)
        return find_starts(starts, problem, points, one_pass, self.options.seed)

    def _plan(self, problem: Problem, state: State, steps: list[Step], unit: float) -> Plan:
        u = row_vectors(problem, state.moments, state.epsilon)
        g = column_potential(problem, state)
        scores = FactoredScores(u, problem.target.z, state.f, g)
        converged = bool(state.error < self.options.tol and state.moved < self.options.tol)
        if not converged:
            logger.warning(
                "The alignment has not converged: the marginal error is %.2g and the last step "
                "changed the solution by %.2g, where tol=%.2g was asked for. To fix this, raise "
                "'max_iter' (%d) or 'epsilon'.",
                float(state.error), float(state.moved), self.options.tol, self.options.max_iter,
            )  # fmt: skip
        return Plan(
            scores,
            plan_cost(self.first, self.second, scores, self.features, self.alpha),
            float(state.epsilon) * unit,
            converged,
            steps,
            *problem.coordinates,
        )


def _points(factor: Factor) -> Points:
    # A kernel compares directions, which a point at the origin has not.
    has_directions = factor.kind == "kernel" and bool((factor.x != 0).any(1).all())
    return Points(factor.x, "cosine" if has_directions else "l2", factor.edge_index)


def plan_cost(
    first: Factor,
    second: Factor,
    scores: Scores,
    features: tuple[Tensor, Tensor] | None,
    alpha: float,
) -> float:
    """The objective of a plan without its entropy, in the unit of squared costs."""
    first, second = (replace(each, x=each.x.detach().double()) for each in (first, second))
    r, c = row_sums(scores), column_sums(scores)

    def product(y: Tensor) -> Tensor:
        return average(scores, y.to(scores.like)).double()

    squares = squared_cost(first, r) + squared_cost(second, c)
    cost = squares - 2 * cross_cost(first, second, product, r, c)
    if features is not None:
        linear = feature_cost(features[0].double(), features[1].double(), product, r, c)
        cost = alpha * cost + (1 - alpha) * linear
    return float(cost)
