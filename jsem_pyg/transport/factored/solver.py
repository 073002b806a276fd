"""Gromov-Wasserstein transport, from what a user hands over to the plan."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ...kernels.table import SINKHORN
from ..costs.factor import Factor
from ..plan.plan import Plan, Step
from ..problem.inputs import (
    as_factor,
    check_kinds,
    check_known_pairs,
    read_features,
)
from ..problem.masses import check_partial, read_bounds, read_masses
from ..problem.objective import fused_cost
from ..problem.options import SolverOptions, read_starts
from ..problem.prepare import Prepared, as_kernels, prepare_factor
from ..problem.problem import Problem, make_problem
from ..problem.relaxation import Relaxation
from ..problem.resolution import resolved
from ..sinkhorn.scores import FactoredScores, average, plan_sums
from .descent import State, column_potential, in_turn, plan_pass, row_vectors
from .pyramid import Schedule, descend
from .resume import resume, steady
from .starts import STARTS, Points, check_starts, find_starts
from .watching import descent_bar, in_units

logger = logging.getLogger(__name__)

_STEP_ON = 10.0  # how much larger marginal errors may be a step after they were measured
_MOST_MASS = 1e3  # of an unbalanced plan between masses of one
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
    rho: float = 0.1,
    mass: float = 1.0,
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
        p: [N] masses of the source, non-negative, divided by their sum; None: the same for all.
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
            well, with `rho` KL(r | p). "partial": a total of `mass` is sent, no
            more than p from a point and q to a point, which are 1 / min(N, K) by default: so with
            ``mass=1`` every point of the smaller side finds partners, and others stay alone.
        rho: the penalty, as a share of the critical temperature, or absolute; 0 is none.
        mass: what is sent in partial transport, at most the sums of p and of q.
        coarse: the number of cells that starts are raced on.
        starts: some of "heat" (points from which heat spreads alike on neighbour graphs), "costs"
            (points whose costs are distributed alike), "axes" (principal axes, with all signs),
            "zero" (the independent plan); or a plan to go on from. None: all; without "heat" where
            one side has no more than three dimensions.
        tol: of the marginal error `sum |c - q|`, and of the relative change of a solution in a
            step.
        max_iter: steps at the last temperature, after which it is a warning not to have converged.
        seed: of samples and quantisation.
        backend: "reference", "torch", "numba", "triton" or "auto".
        progress: show a bar, where there is a terminal to show it in.

    Returns:
        The plan; its `cost` is the objective without the entropy, in the unit of squared costs.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if one is out of range, shapes do not fit, the costs
            are of different kinds, `epsilon` is too small to be resolved, or `rho` too small to
            hold the masses of an unbalanced plan.

    Source: Peyré, Cuturi and Solomon, "Gromov-Wasserstein averaging of kernel and distance
    matrices", ICML 2016 (the entropic problem); Scetbon, Peyré and Cuturi, "Linear-time
    Gromov-Wasserstein distances using low rank couplings and costs", ICML 2022 (factored costs).

    Example:
        >>> import torch
        >>> x = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0], [4.0, 2.0], [-2.0, 2.0]])
        >>> turned = x.flip(0) @ torch.tensor([[0.6, 0.8], [-0.8, 0.6]])
        >>> gromov_wasserstein(x, turned, progress=False).argmax()
        tensor([4, 3, 2, 1, 0])
    """
    options = SolverOptions(
        epsilon, absolute, alpha, marginals, rho, mass, coarse, starts, tol, max_iter, seed,
        backend, progress,
    )  # fmt: skip
    task = read_task(source, target, cost, p, q, features, known_pairs, options)
    names = starts if isinstance(starts, Plan) else read_starts(starts, STARTS)
    return task.solve(names, SINKHORN.find(backend, task.first.x.device).sinkhorn_pass)


def read_task(
    source: Any,
    target: Any,
    cost: Any,
    p: Tensor | None,
    q: Tensor | None,
    features: tuple[Tensor, Tensor] | None,
    known_pairs: Tensor | None,
    options: SolverOptions,
) -> "Task":
    """Read and check what a user hands over; see :func:`gromov_wasserstein`."""
    first, second = as_factor("source", source, cost), as_factor("target", target, cost)
    check_kinds(first, second)
    given = (("p", p, first.num_points), ("q", q, second.num_points))
    if options.marginals == "partial":
        bound = 1 / min(first.num_points, second.num_points)
        masses = [read_bounds(*each, bound) for each in given]
        check_partial(options.mass, *masses)
    else:
        masses = [read_masses(*each).detach() for each in given]
    left, right = (mass.to(first.x.detach()) for mass in masses)
    if features is not None:
        own, other = read_features(features, first, second)
        features = own.detach(), other.detach()
    if known_pairs is not None:
        check_known_pairs(known_pairs, first, second)
    return Task(first.detach(), second.detach(), left, right, features, known_pairs, options)


@dataclass(frozen=True, eq=False)
class Task:
    """One problem in the user's units, of numbers without history."""

    first: Factor
    second: Factor
    p: Tensor
    q: Tensor
    features: tuple[Tensor, Tensor] | None
    known_pairs: Tensor | None
    options: SolverOptions

    @property
    def alpha(self) -> float:
        """The weight of the structure."""
        return 1.0 if self.features is None else self.options.alpha

    def solve(self, starts: tuple[str, ...] | Plan | None, one_pass: Any) -> Plan:
        """The best plan that the starts lead to."""
        options = self.options
        if options.marginals == "unbalanced" and not isinstance(starts, Plan):
            # Far from a solution it costs least to send nothing, from where no way leads back.
            balanced = replace(self, options=replace(options, marginals="balanced"))
            starts = balanced.solve(starts, one_pass)
        problem, unit, critical = self._posed()
        share = 1 / unit if options.absolute else critical
        problem = replace(problem, relaxation=options.relaxation(share))
        lowest = options.epsilon * share
        problem = resolved(problem, lowest, unit)
        steps: list[Step] = []
        schedule = Schedule(
            lowest, critical, options.tol, options.coarse, options.seed, options.max_iter,
            not options.absolute, problem.relaxation.is_balanced,
        )  # fmt: skip
        with descent_bar(options.progress) as advance:

            def report(step: Step) -> None:
                steps.append(in_units(step, unit))
                advance(steps[-1])

            if isinstance(starts, Plan):
                state = resume(problem, starts, schedule, in_turn(one_pass), unit, report)
            else:
                points = _points(self.first), _points(self.second)
                found = find_starts(starts, problem, points, one_pass, options.seed)
                check_starts(found)
                state = descend(problem, found, schedule, in_turn(one_pass), report)
                if not self._has_converged(state):
                    state = steady(problem, state, schedule, in_turn(one_pass))
            # Of the last potentials and moments: its rows have exactly their masses.
            nothing = problem.target.z[:, :0]
            last = plan_pass(problem, state, nothing, in_turn(one_pass))
        self._check_mass(float(last.column_mass.sum()))
        if problem.relaxation.is_balanced:
            # What the plan itself misses; potentials and moments went a step on since it settled.
            error = (last.column_mass - problem.target.mass).abs().sum() / _STEP_ON
            state = replace(state, error=torch.maximum(state.error, error))
        return self._plan(problem, replace(state, f=last.f), steps, unit)

    def _check_mass(self, total: float) -> None:
        """Raise a ValueError if an unbalanced plan has lost its mass, or never stops to gain."""
        if self.options.marginals == "unbalanced" and not 1 / _MOST_MASS < total < _MOST_MASS:
            raise ValueError(
                f"Expected 'rho' to hold the masses near one (got rho={self.options.rho}, with "
                f"which the plan has a mass of {total:.3g}). To fix this, raise 'rho', such as to "
                "10."
            )

    def _has_converged(self, state: State) -> bool:
        return bool(state.error < self.options.tol and state.moved < self.options.tol)

    def relaxation(self) -> Relaxation:
        """How much marginals are held, in the unit of squared costs."""
        if self.options.absolute or self.options.marginals in ("balanced", "partial"):
            return self.options.relaxation(1.0)
        _, unit, critical = self._posed()
        return self.options.relaxation(critical * unit)

    def _posed(self) -> tuple[Problem, float, float]:
        """The problem, what a squared cost of it is in those of the user, and what is critical."""
        prepared = self._prepare()
        unit = (prepared[0].scale * prepared[1].scale) ** 2
        problem = self._problem(prepared, unit)
        return problem, unit, problem.critical_epsilon() or 1.0

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
        is_free = self.options.marginals != "balanced"
        weight = (1 - self.alpha) / unit
        return make_problem(
            *prepared, self.p, self.q, self.alpha, self.features, weight, known, is_free
        )

    def _plan(self, problem: Problem, state: State, steps: list[Step], unit: float) -> Plan:
        u = row_vectors(problem, state.moments, state.epsilon)
        g = column_potential(problem, state)
        scores = FactoredScores(u, problem.target.z, state.f, g)
        converged = self._has_converged(state)
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
    scores: FactoredScores,
    features: tuple[Tensor, Tensor] | None,
    alpha: float,
) -> float:
    """The objective of a plan without its entropy, in the unit of squared costs."""
    first, second = (replace(each, x=each.x.detach().double()) for each in (first, second))
    r, c, _ = plan_sums(scores)

    def product(y: Tensor) -> Tensor:
        return average(scores, y.to(scores.like)).double()

    return float(fused_cost(first, second, features, alpha, product, r, c))
