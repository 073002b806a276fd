"""One problem in the user's units: read, solved, and turned into a plan."""

import logging
import math
from dataclasses import dataclass, replace
from functools import partial as partial_
from typing import Any

import torch
from torch import Tensor

from ..._progress import open_bar
from ...kernels.table import SINKHORN
from ..costs.cost import check_cost_range
from ..costs.factor import Factor
from ..plan.plan import Plan, Step
from ..plan.scores import FactoredScores, average, row_sums
from ..problem.inputs import as_factor, check_kinds, read_features, read_known_pairs
from ..problem.masses import as_partners, read_bounds, read_masses
from ..problem.objective import fused_cost, num_axes
from ..problem.options import SolverOptions, read_starts
from ..problem.prepare import prepare_factor
from ..problem.problem import FINAL_BITS, SMALL, Problem, Side, make_problem, resolved
from .confidence import near_confidence
from .cooling import descend, follow
from .copies import sharpened
from .descent import Effort, State, is_independent, make_kernel, renewed, scale, settle
from .partial import (
    Partial,
    as_kernel,
    balanced,
    cool,
    cooling_to,
    in_cells,
    scores_of,
    sums_of_plan,
    warm,
)
from .partial import race as race_partial
from .race import race
from .schedule import SCHEDULE, Run
from .starts import STARTS, Points, find_starts

logger = logging.getLogger(__name__)


def read_task(
    source: Any,
    target: Any,
    *,
    cost: Any = None,
    p: Tensor | None = None,
    q: Tensor | None = None,
    features: tuple[Tensor, Tensor] | None = None,
    known_pairs: Tensor | None = None,
    **options: Any,
) -> "Task":
    """Read and check the arguments of :func:`.gromov_wasserstein`."""
    checked = SolverOptions(**options)
    checked = replace(checked, starts=read_starts(checked.starts, STARTS))
    SINKHORN.check(checked.backend)
    first, second = as_factor("source", source, cost), as_factor("target", target, cost)
    check_kinds(first, second)
    if checked.mass not in (None, "source"):
        bounds = read_bounds(p, q, (first.num_points, second.num_points))
        left, right = (mass.to(first.x.device) for mass in bounds)
    else:
        given = (("p", p, first.num_points), ("q", q, second.num_points))
        left, right = (read_masses(*each).to(first.x.device) for each in given)
    if features is not None:
        features = read_features(features, first, second)
    known_pairs = read_known_pairs(known_pairs, first, second)
    if known_pairs is not None and checked.mass is not None:
        raise ValueError(
            "Expected 'known_pairs' to be None with 'mass' (got both). To fix this, leave one out."
        )
    if known_pairs is not None and p is None and q is None:
        left, right = as_partners(left, right, known_pairs)
    return Task(first, second, left, right, features, known_pairs, checked)


@dataclass(frozen=True, eq=False)
class Task:
    """One problem in the user's units."""

    first: Factor
    second: Factor
    p: Tensor  # [N] float64
    q: Tensor  # [K] float64
    features: tuple[Tensor, Tensor] | None
    known_pairs: Tensor | None
    options: SolverOptions

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
        if self.options.mass is not None:
            found = self._detached()._solve_partial()
        else:
            found = self._detached()._solve(is_sharpened, is_start)
        return replace(found, dtype=dtype)

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
        problem, unit, critical = self._posed()
        lowest = options.epsilon * (1 / unit if options.absolute else critical)
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

    def _solve_partial(self) -> Plan:
        options = self.options
        problem, unit, critical = self._posed()
        lowest = options.epsilon * (1 / unit if options.absolute else critical)
        resolved(problem, lowest, unit)  # raises where it is too low
        partial = self._pose_partial(unit, critical)
        temperatures = cooling_to(lowest, critical)
        effort = options.max_iter, options.tol
        if isinstance(options.starts, Plan):
            sums = sums_of_plan(partial, options.starts)
            found = cool(partial, sums, warm(temperatures, critical), *effort)
        else:
            points = _points(self.first), _points(self.second)
            starts = find_starts(options.starts, balanced(partial), points, options.seed)
            cells = in_cells(partial, options.coarse, options.seed)
            found = race_partial(cells, [each.moments for each in starts], temperatures, *effort)
            if cells.source is not partial.source or cells.target is not partial.target:
                found = cool(partial, found.sums, temperatures[-3:], *effort)
        is_converged = found.error < options.tol and found.moved < options.tol
        if not is_converged:
            self._warn(found.error, found.moved, False)
        scores = scores_of(partial, found)
        first, second = (replace(each, x=each.x.double()) for each in (self.first, self.second))
        cost = fused_cost(
            first, second, self.features, self.alpha, partial_(average, scores),
            found.rows, found.columns,
        )  # fmt: skip
        source, target = (replace(f, x=f.x.detach().clone()) for f in (self.first, self.second))
        return Plan(
            scores,
            float(cost),
            temperatures[-1] * unit,
            is_converged,
            [],
            *problem.coordinates,
            partial_(near_confidence, source, target, backend=options.backend),
            bounds=(self.p, found.columns if partial.is_free else self.q),
        )

    def _pose_partial(self, unit: float, critical: float) -> Partial:
        """Write both sides as kernels, in the unit of their costs."""
        sides, signs = [], []
        weight = (1 - self.alpha) / unit
        for index, (factor, mass) in enumerate(((self.first, self.p), (self.second, self.q))):
            x, sign = as_kernel(prepare_factor(factor, mass), math.sqrt(unit))
            z = [x]
            cost = x.new_zeros(len(x), 1)
            if self.features is not None:
                given = self.features[index].double()
                z.append(given)
                cost = weight * given.square().sum(1, keepdim=True)
            sides.append(Side(torch.cat([*z, cost], 1), mass.double().log2()))
            signs.append(sign)
        share = self.options.mass
        is_free = share == "source"
        return Partial(
            sides[0], sides[1], (signs[0], signs[1]), self.alpha, weight,
            1.0 if isinstance(share, str) else float(share), is_free, critical,
            self.options.backend,
        )  # fmt: skip

    def _posed(self) -> tuple[Problem, float, float]:
        """Return the problem, the user's unit of squared costs, and the critical temperature."""
        first, second = prepare_factor(self.first, self.p), prepare_factor(self.second, self.q)
        for name, side in (("source", first), ("target", second)):
            check_cost_range(name, side.scale**2)
        unit = (first.scale * second.scale) ** 2
        known = None
        if self.known_pairs is not None:
            source, target = self.known_pairs
            known = first.x[source].double().T @ second.x[target].double()
            known /= source.numel() + num_axes(first.x.double(), self.p.double())
        weight = (1 - self.alpha) / unit
        problem = make_problem(
            first, second, self.p, self.q, self.alpha, self.features, weight, known,
            self.options.backend,
        )  # fmt: skip
        if self.known_pairs is not None:
            problem = problem.bound(self.known_pairs)
        return problem, unit, problem.critical_epsilon() or problem.largest_given_score or 1.0

    def _plan(
        self, problem: Problem, state: State, steps: list[Step], unit: float, is_start: bool
    ) -> Plan:
        """Make the plan of a state's scores, scaled once more: its own errors count."""
        options = self.options
        problem = resolved(problem, float(state.epsilon), unit, FINAL_BITS)
        state = state.like(problem.source.z)
        passes = SCHEDULE.many_passes
        for effort in (Effort(options.tol, passes, options.max_iter, is_careful=True), None):
            # More than asked for, so that marginal errors do not change the moments.
            found = scale(problem, state, Effort(0.1 * options.tol, passes, 1, is_careful=True))
            new = renewed(problem, state, found)
            moved, error = float(new.moved), float(found.error)
            is_converged = error < options.tol and moved < options.tol
            if is_converged or effort is None:
                break
            state = settle(problem, state, effort)
        is_cold = float(state.epsilon) < SCHEDULE.stable * problem.critical_epsilon()
        is_saddle = is_cold and problem.has_saddle and bool(is_independent(state))
        is_converged = is_converged and not is_saddle
        if not (is_converged or is_start):
            self._warn(error, moved, is_saddle)
        kernel = make_kernel(problem, state)
        scores = FactoredScores(kernel.u, kernel.v, found.done.f, kernel.bias + found.psi)
        first, second = (replace(each, x=each.x.double()) for each in (self.first, self.second))
        cost = fused_cost(
            first, second, self.features, self.alpha, partial_(average, scores),
            row_sums(scores), scores.column_sums(),
        )  # fmt: skip
        # Copies: the confidence, computed later, does not see changes of the coordinates.
        source, target = (replace(f, x=f.x.detach().clone()) for f in (self.first, self.second))
        return Plan(
            scores,
            float(cost),
            float(state.epsilon) * unit,
            is_converged,
            steps,
            *problem.coordinates,
            partial_(near_confidence, source, target, backend=options.backend),
        )

    def _warn(self, error: float, moved: float, is_saddle: bool) -> None:
        options = self.options
        if is_saddle:
            logger.warning(
                "The alignment has ended at the independent plan, which is no optimum at so low a "
                "temperature. To fix this, raise 'epsilon' (%g), or pass other 'starts'.",
                options.epsilon,
            )
            return
        logger.warning(
            "The alignment has not converged: the marginal error is %.2g and the last step changed "
            "the solution by %.2g, more than tol=%.2g. To fix this, raise 'max_iter' (%d) or "
            "'epsilon' (%g).",
            error, moved, options.tol, options.max_iter, options.epsilon,
        )  # fmt: skip


def _points(factor: Factor) -> Points:
    # A kernel compares directions, which a point at the origin has not.
    has_directions = factor.kind == "kernel" and bool((factor.x != 0).any(1).all())
    return Points(factor.x, "cosine" if has_directions else "l2", factor.edge_index)
