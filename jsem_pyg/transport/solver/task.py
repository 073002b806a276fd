"""One problem in the user's units: read, solved, and turned into a plan."""

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..._progress import open_bar
from ...kernels.table import SINKHORN
from ..costs.cost import check_cost_range
from ..costs.factor import Factor
from ..plan.plan import Plan, Step
from ..plan.scores import FactoredScores, average, plan_sums
from ..problem.inputs import as_factor, check_kinds, read_features, read_known_pairs
from ..problem.masses import check_partial, read_bounds, read_masses
from ..problem.objective import fused_cost
from ..problem.options import SolverOptions, read_starts
from ..problem.prepare import as_kernels, prepare_factors
from ..problem.problem import FINAL_BITS, SMALL, Problem, make_problem, resolved
from ..problem.relaxation import Relaxation
from ..sinkhorn.loop import Scaling
from .confidence import near_confidence
from .cooling import descend, follow
from .copies import sharpened
from .descent import Effort, State, is_independent, make_kernel, masses_of, renewed, scale, settle
from .race import race
from .schedule import SCHEDULE, Run
from .starts import STARTS, Points, find_starts

logger = logging.getLogger(__name__)

_MOST_MASS = 1e3  # of an unbalanced plan between masses of one


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
    """Read and check the arguments of :func:`.gromov_wasserstein`."""
    options = replace(options, starts=read_starts(options.starts, STARTS))
    SINKHORN.check(options.backend)
    first, second = as_factor("source", source, cost), as_factor("target", target, cost)
    check_kinds(first, second)
    given = (("p", p, first.num_points), ("q", q, second.num_points))
    if options.marginals == "partial":
        bound = 1 / min(first.num_points, second.num_points)
        masses = [read_bounds(*each, bound) for each in given]
        check_partial(options.mass, *masses)
    else:
        masses = [read_masses(*each) for each in given]
    left, right = (mass.to(first.x.device) for mass in masses)
    if features is not None:
        features = read_features(features, first, second)
    if known_pairs is not None:
        known_pairs = read_known_pairs(known_pairs, first, second)
    return Task(first, second, left, right, features, known_pairs, options)


@dataclass(frozen=True, eq=False)
class Task:
    """One problem in the user's units, with the tensors that its numbers come from."""

    first: Factor
    second: Factor
    p: Tensor  # [N] float64
    q: Tensor  # [K] float64
    features: tuple[Tensor, Tensor] | None
    known_pairs: Tensor | None
    options: SolverOptions

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of it that may have a gradient."""
        return self.first.x, self.second.x, self.p, self.q, *(self.features or ())

    @property
    def alpha(self) -> float:
        """The weight of the structure."""
        return 1.0 if self.features is None else self.options.alpha

    def solve(self, is_sharpened: bool = False, is_start: bool = False) -> Plan:
        """Find the best plan from the starts.

        `is_sharpened`: exact copies are cooled below `epsilon`. `is_start`: another search goes on
        from it, so that there is no warning if it has not converged.
        """
        dtype = torch.promote_types(self.first.x.dtype, self.second.x.dtype)
        if self.options.marginals != "partial":
            return replace(self._detached()._solve(is_sharpened, is_start), dtype=dtype)
        # With the sum m of the smaller side, T = m T': the objective is m^2 times that of T', of
        # features divided by the root of m, at the temperature epsilon / m.
        unit = float(torch.minimum(self.p.sum(), self.q.sum()))
        options = replace(self.options, mass=self.options.mass / unit)
        if options.absolute:
            options = replace(options, epsilon=options.epsilon / unit)
        if isinstance(options.starts, Plan):
            options = replace(options, starts=_scaled(options.starts, 1 / unit))
        features = self.features and tuple(each / unit**0.5 for each in self.features)
        task = replace(self, p=self.p / unit, q=self.q / unit, features=features, options=options)
        return replace(_scaled(task._detached()._solve(is_sharpened, is_start), unit), dtype=dtype)

    def relaxation(self) -> Relaxation:
        """Compute the strengths of the penalties on the marginals, in units of squared costs."""
        if self.options.absolute or self.options.marginals in ("balanced", "partial"):
            return self.options.relaxation(1.0)
        _, unit, critical = self._detached()._posed()
        return self.options.relaxation(critical * unit)

    def _detached(self) -> "Task":
        """Take the numbers without their history, the masses in the type of the coordinates.

        Small problems are solved in float64.
        """
        first, second = self.first.detach(), self.second.detach()
        if first.num_points * second.num_points <= SMALL:
            first, second = (replace(each, x=each.x.double()) for each in (first, second))
        p, q = (mass.detach().to(first.x.dtype) for mass in (self.p, self.q))
        features = self.features
        if features is not None:
            features = features[0].detach().to(p.dtype), features[1].detach().to(p.dtype)
        return replace(self, first=first, second=second, p=p, q=q, features=features)

    def _solve(self, is_sharpened: bool, is_start: bool) -> Plan:
        options = self.options
        if options.marginals == "unbalanced" and not isinstance(options.starts, Plan):
            # Far from a solution it is cheapest to send nothing, a state that descent never leaves.
            balanced = replace(self, options=replace(options, marginals="balanced"))
            options = replace(options, starts=balanced.solve(is_start=True))
        problem, unit, critical = self._posed()
        share = 1 / unit if options.absolute else critical
        lowest = options.epsilon * share
        problem = replace(problem, relaxation=options.relaxation(share))
        problem = resolved(problem, lowest, unit)
        steps: list[Step] = []
        with open_bar(options.progress, bar_format="Aligning: {desc}{elapsed}") as bar:

            def report(step: Step) -> None:
                steps.append(step._replace(epsilon=step.epsilon * unit, cost=step.cost * unit))
                bar.set_description(
                    f"{step.stage}, epsilon {steps[-1].epsilon:.3g}, marginal error "
                    f"{step.marginal_error:.1e}, sharpness {step.sharpness:.2f}"
                )

            run = Run(
                lowest, critical, options.tol, options.max_iter, options.coarse, options.seed,
                not options.absolute, report,
            )  # fmt: skip
            if isinstance(options.starts, Plan):
                state = follow(problem, options.starts, run, unit)
            else:
                points = _points(self.first), _points(self.second)
                starts = find_starts(options.starts, problem, points, options.seed)
                state = descend(problem, race(problem, starts, run), run)
                if is_sharpened and run.may_stop:
                    problem, state = sharpened(problem, state, run, unit)
        return self._plan(problem, state, steps, unit, is_start)

    def _posed(self) -> tuple[Problem, float, float]:
        """Return the problem, the user's unit of squared costs, and the critical temperature."""
        is_free = self.options.marginals != "balanced"
        prepare = as_kernels if is_free else prepare_factors
        first, second = prepare(self.first, self.second, self.p, self.q)
        for name, side in (("source", first), ("target", second)):
            check_cost_range(name, side.scale**2)
        unit = (first.scale * second.scale) ** 2
        known = None
        if self.known_pairs is not None:
            source, target = self.known_pairs
            known = first.x[source].double().T @ second.x[target].double()
            known *= SCHEDULE.known_weight / source.numel()
        weight = (1 - self.alpha) / unit
        problem = make_problem(
            first, second, self.p, self.q, self.alpha, self.features, weight, known, is_free,
            self.options.backend,
        )  # fmt: skip
        return problem, unit, problem.critical_epsilon() or problem.largest_given_score or 1.0

    def _plan(
        self, problem: Problem, state: State, steps: list[Step], unit: float, is_start: bool
    ) -> Plan:
        """Make the plan of a state's scores, scaled once more: its own errors count."""
        options = self.options
        problem = resolved(problem, float(state.epsilon), unit, FINAL_BITS)
        state = state.like(problem.source.z)
        tol = options.tol * (1.0 if problem.relaxation.is_balanced else SCHEDULE.further)
        passes = SCHEDULE.many_passes
        for effort in (Effort(tol, passes, options.max_iter, is_careful=True), None):
            # More than asked for, so that marginal errors do not change the moments.
            last = Effort(0.1 * options.tol, passes, 1, True)
            found = scale(problem, state, last)
            self._check_mass(problem, found)
            new = renewed(problem, state, found)
            moved, error = float(new.moved), float(found.error)
            is_converged = error < options.tol and moved < options.tol
            if is_converged or effort is None:
                break
            state = settle(problem, state, effort)
        if options.marginals == "unbalanced" and not is_converged:
            # The mass may go to and fro between nothing, which costs nothing, and all.
            self._check_mass(problem, scale(problem, new, last))
        is_cold = float(state.epsilon) < SCHEDULE.stable * problem.critical_epsilon()
        is_saddle = is_cold and problem.has_saddle and bool(is_independent(state))
        is_converged = is_converged and not is_saddle
        if not (is_converged or is_start):
            self._warn(problem, error, moved, is_saddle)
        kernel = make_kernel(problem, state)
        rows, columns = problem.shape
        g = (kernel.bias + found.psi)[:columns]
        scores = FactoredScores(kernel.u[:rows], kernel.v[:columns], found.done.f[:rows], g)
        first, second = (replace(each, x=each.x.double()) for each in (self.first, self.second))
        sums = plan_sums(scores)
        cost = fused_cost(
            first, second, self.features, self.alpha, partial(average, scores), sums.r, sums.c
        )
        # Copies: the confidence, computed later, does not see changes of the coordinates.
        source, target = (replace(f, x=f.x.detach().clone()) for f in (self.first, self.second))
        return Plan(
            scores,
            float(cost),
            float(state.epsilon) * unit,
            is_converged,
            steps,
            *problem.coordinates,
            partial(near_confidence, source, target, backend=options.backend),
        )

    def _warn(self, problem: Problem, error: float, moved: float, is_saddle: bool) -> None:
        options = self.options
        if is_saddle:
            logger.warning(
                "The alignment has ended at the independent plan, which is no optimum at so low a "
                "temperature. To fix this, raise 'epsilon' (%g), or pass other 'starts'.",
                options.epsilon,
            )
            return
        remedy = f"'epsilon' ({options.epsilon:g})"
        if problem.relaxation.mass is None:  # more steps of partial plans go to and fro
            remedy = f"'max_iter' ({options.max_iter}) or {remedy}"
        logger.warning(
            "The alignment has not converged: the marginal error is %.2g and the last step changed "
            "the solution by %.2g, more than tol=%.2g. To fix this, raise %s.",
            error, moved, options.tol, remedy,
        )  # fmt: skip

    def _check_mass(self, problem: Problem, found: Scaling) -> None:
        """Raise a ValueError if an unbalanced plan has lost its mass, or gains without end."""
        total = float(masses_of(problem, found)[1].sum())
        if self.options.marginals == "unbalanced" and not 1 / _MOST_MASS < total < _MOST_MASS:
            raise ValueError(
                f"Expected 'rho' to hold the masses near one (got rho={self.options.rho}, with "
                f"which the plan has a mass of {total:.3g}). To fix this, raise 'rho', such as to "
                f"{10 * self.options.rho:g}; inner products that are far from zero have to be "
                "centred first, such as by FeatureCost(kind='kernel', center=True)."
            )


def _scaled(plan: Plan, unit: float) -> Plan:
    """Multiply the masses of a plan by a number, and costs and temperatures likewise."""
    steps = [
        step._replace(epsilon=step.epsilon * unit, cost=step.cost * unit**2)
        for step in plan.history
    ]
    return replace(
        plan, scores=plan.scores.times(unit), cost=plan.cost * unit**2,
        epsilon=plan.epsilon * unit, history=steps,
    )  # fmt: skip


def _points(factor: Factor) -> Points:
    # A kernel compares directions, which a point at the origin has not.
    has_directions = factor.kind == "kernel" and bool((factor.x != 0).any(1).all())
    return Points(factor.x, "cosine" if has_directions else "l2", factor.edge_index)
