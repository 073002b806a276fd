"""Gromov-Wasserstein transport between factored costs: the public solver."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..._precision import without_autocast
from ..._progress import open_bar
from ...kernels.table import SINKHORN
from ..costs.factor import Factor
from ..plan.plan import Plan, Step
from ..problem.inputs import as_factor, check_kinds, read_features, read_known_pairs
from ..problem.masses import check_partial, read_bounds, read_masses
from ..problem.objective import fused_cost
from ..problem.options import SolverOptions, read_starts
from ..problem.prepare import as_kernels, prepare_factors
from ..problem.problem import FINAL_BITS, SMALL, Problem, make_problem, resolved
from ..problem.relaxation import Relaxation
from ..sinkhorn.loop import Scaling
from ..sinkhorn.scores import FactoredScores, average, plan_sums, scaled
from .annealing import COOLING, Schedule, anneal, is_bare
from .confidence import near_confidence
from .copies import sharpened
from .descent import Effort, State, begin_from_plan, make_kernel, masses_of, renewed, scale, settle
from .starts import STARTS, Points, find_starts

logger = logging.getLogger(__name__)

_FURTHER = 0.3  # of `tol`, to which steps that are mixed settle: another one moves the plan again

_MOST_MASS = 1e3  # of an unbalanced plan between masses of one
_SMALLEST, _LARGEST = 1e-74, 1e74  # coordinates: squared costs are of their fourth power
_KNOWN_WEIGHT = 1.0  # of known pairs, as a share of all mass
_STABLE = 0.9  # of the critical temperature, from which on the independent plan may be stable
_PASSES = 60  # of Sinkhorn's iteration, where marginals have to be met before the moments change
_FOLLOWING = Effort(tol=1e-2, passes=30, updates=3, is_careful=True)  # from a plan, while cooling


@without_autocast
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
            centred inner products of coordinates, which determine squared distances, and mislead
            less where lengths disagree; for a `Data` without them, ``HeatCost()``.
        p: [N] masses of the source, non-negative, divided by their sum; None: the same for all.
        q: [K] masses of the target.
        epsilon: the temperature at the end, as a share of the critical one, above which all goes
            everywhere. Small ones give sharp plans. Cooling ends before where rows are so sharp
            that a colder plan would be the same, and goes on where both sides turn out to be
            copies; :attr:`Plan.epsilon` is what was reached.
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
    return task.solve(is_sharpened=True)


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
    """Read and check the arguments of :func:`gromov_wasserstein`."""
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
    """One problem in the user's units, which remembers where its numbers come from."""

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

    def _detached(self) -> "Task":
        """The same numbers without their history, the masses in the type of the coordinates.

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

    @property
    def alpha(self) -> float:
        """The weight of the structure."""
        return 1.0 if self.features is None else self.options.alpha

    def solve(self, is_sharpened: bool = False, is_start: bool = False) -> Plan:
        """The best plan that the starts lead to.

        `is_sharpened`: exact copies are cooled below `epsilon`. `is_start`: another search goes on
        from it, so that there is no warning where it has not converged.
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

            schedule = Schedule(
                lowest, critical, options.tol, options.coarse, options.seed, options.max_iter,
                not options.absolute, problem.relaxation.is_balanced, report,
            )  # fmt: skip
            if isinstance(options.starts, Plan):
                state = _follow(problem, options.starts, schedule, unit)
            else:
                points = _points(self.first), _points(self.second)
                found = find_starts(options.starts, problem, points, options.seed)
                state = anneal(problem, found, schedule)
                if is_sharpened and schedule.may_stop:
                    problem, state = sharpened(problem, state, schedule, unit)
        return self._plan(problem, state, steps, unit, is_start)

    def relaxation(self) -> Relaxation:
        """Strengths of the penalties on the marginals, in the unit of squared costs."""
        if self.options.absolute or self.options.marginals in ("balanced", "partial"):
            return self.options.relaxation(1.0)
        _, unit, critical = self._detached()._posed()
        return self.options.relaxation(critical * unit)

    def _posed(self) -> tuple[Problem, float, float]:
        """The problem, the user's unit of one of its squared costs, the critical temperature."""
        for name, factor in (("source", self.first), ("target", self.second)):
            largest = float(factor.x.detach().abs().max()) if factor.x.numel() else 0.0
            if largest and not _SMALLEST <= largest <= _LARGEST:
                is_large = largest > _LARGEST
                raise ValueError(
                    f"Expected '{name}' to lead to coordinates of at "
                    + (f"most {_LARGEST:g}" if is_large else f"least {_SMALLEST:g}, or zeros")
                    + f", whose squared costs float64 can hold (got a largest of {largest:.3g}). "
                    f"To fix this, {'divide' if is_large else 'multiply'} both sides by one number."
                )
        is_free = self.options.marginals != "balanced"
        prepare = as_kernels if is_free else prepare_factors
        first, second = prepare(self.first, self.second, self.p, self.q)
        unit = (first.scale * second.scale) ** 2
        known = None
        if self.known_pairs is not None:
            source, target = self.known_pairs
            known = first.x[source].double().T @ second.x[target].double()
            known *= _KNOWN_WEIGHT / source.numel()
        weight = (1 - self.alpha) / unit
        problem = make_problem(
            first, second, self.p, self.q, self.alpha, self.features, weight, known, is_free,
            self.options.backend,
        )  # fmt: skip
        return problem, unit, problem.critical_epsilon() or problem.largest_given_score or 1.0

    def _plan(
        self, problem: Problem, state: State, steps: list[Step], unit: float, is_start: bool
    ) -> Plan:
        """The plan of a state's scores, scaled once more: its own errors count."""
        options = self.options
        problem = resolved(problem, float(state.epsilon), unit, FINAL_BITS)
        state = state.like(problem.source.z)
        tol = options.tol * (1.0 if problem.relaxation.is_balanced else _FURTHER)
        for effort in (Effort(tol, _PASSES, options.max_iter, is_careful=True), None):
            # More than asked for, so that marginal errors do not change the moments.
            last = Effort(0.1 * options.tol, _PASSES, 1, True)
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
        is_cold = float(state.epsilon) < _STABLE * problem.critical_epsilon()
        if is_cold and problem.has_saddle and bool(is_bare(state)):
            is_converged = False
            if not is_start:
                logger.warning(
                    "The alignment has ended at the independent plan, which is no optimum at so "
                    "low a temperature. To fix this, raise 'epsilon' (%g), or pass other 'starts'.",
                    options.epsilon,
                )
        elif not (is_converged or is_start):
            remedy = f"'epsilon' ({options.epsilon:g})"
            if problem.relaxation.mass is None:  # more steps of partial plans go to and fro
                remedy = f"'max_iter' ({options.max_iter}) or {remedy}"
            logger.warning(
                "The alignment has not converged: the marginal error is %.2g and the last step "
                "changed the solution by %.2g, more than tol=%.2g. To fix this, raise %s.",
                error, moved, options.tol, remedy,
            )  # fmt: skip
        kernel = make_kernel(problem, state)
        rows, columns = problem.shape
        g = (kernel.bias + found.psi)[:columns]
        scores = FactoredScores(kernel.u[:rows], kernel.v[:columns], found.done.f[:rows], g)
        first, second = (replace(each, x=each.x.double()) for each in (self.first, self.second))
        product = partial(average, scores, is_narrow=True)
        sums = plan_sums(scores)
        # Copies: the confidence, computed later, does not see changes of the coordinates.
        source, target = (replace(f, x=f.x.detach().clone()) for f in (self.first, self.second))
        return Plan(
            scores,
            float(fused_cost(first, second, self.features, self.alpha, product, sums.r, sums.c)),
            float(state.epsilon) * unit,
            is_converged,
            steps,
            *problem.coordinates,
            partial(near_confidence, source, target, backend=options.backend),
        )

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
    """The same plan with so many times its masses, and costs and temperatures likewise."""
    steps = [
        step._replace(epsilon=step.epsilon * unit, cost=step.cost * unit**2)
        for step in plan.history
    ]
    return replace(
        plan, scores=scaled(plan.scores, unit), cost=plan.cost * unit**2,
        epsilon=plan.epsilon * unit, history=steps,
    )  # fmt: skip


def _follow(problem: Problem, plan: Plan, schedule: Schedule, unit: float) -> State:
    """Go on from a plan, down to the last temperature."""
    epsilon = plan.epsilon / unit
    if epsilon > schedule.critical:  # which would melt the plan, as may be one of other costs
        epsilon = schedule.warm
    state = begin_from_plan(problem, plan, max(epsilon, schedule.lowest), unit)
    lowest = torch.full_like(state.epsilon, schedule.lowest)
    while state.epsilon > lowest * (1 + 1e-6):  # not for the rounding of units
        state = replace(state, epsilon=torch.maximum(state.epsilon / COOLING, lowest))
        state = settle(problem, state, _FOLLOWING)
    effort = Effort(schedule.tol, _PASSES, schedule.max_updates, is_careful=True)
    state = settle(problem, replace(state, epsilon=lowest), effort)
    schedule.note("all points", state)
    return state


def _points(factor: Factor) -> Points:
    # A kernel compares directions, which a point at the origin has not.
    has_directions = factor.kind == "kernel" and bool((factor.x != 0).any(1).all())
    return Points(factor.x, "cosine" if has_directions else "l2", factor.edge_index)
