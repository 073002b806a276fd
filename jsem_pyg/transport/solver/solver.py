"""Gromov-Wasserstein transport between factored costs: posed, solved, and made a plan."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from ..._progress import open_bar
from ...kernels.torch_func import without_autocast
from ..plan.plan import Plan, Step
from ..plan.scores import average, row_sums
from ..problem.objective import fused_cost
from ..problem.problem import Problem
from .confidence import near_confidence
from .cooling import Solved, descend, finish, follow
from .copies import cool_copies
from .partial import solve_partial
from .pose import Question, pose, read_question, without_history
from .race import race
from .schedule import Run
from .starts import find_starts, points_of

logger = logging.getLogger(__name__)


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
    mass: float | Literal["source"] | None = None,
    starts: Sequence[str] | Plan | None = None,
    tol: float = 1e-3,
    max_iter: int = 20,
    seed: int = 0,
    backend: str = "auto",
    progress: bool = True,
) -> Plan:
    r"""Find which points of two spaces correspond, from the costs inside each space alone.

    .. math::
        \min_{\mathbf{T}} \; \alpha \sum_{ijkl} |C_{ik} - D_{jl}|^2 T_{ij} T_{kl}
        + (1 - \alpha) \sum_{ij} |\phi_i - \psi_j|^2 T_{ij}
        + \epsilon \, \mathrm{KL}(\mathbf{T} \,|\, \mathbf{p} \mathbf{q}^T)

    Without features alpha is one. The costs are factored, so the plan is never stored: a
    step takes O(N K r) time and O((N + K) r) memory. The problem has many local optima, and the
    start decides; so several are compared on a few hundred quantised points while the
    temperature falls, and the best goes on among all points.

    Args:
        source: N points: a :class:`Factor`, a :class:`~torch_geometric.data.Data`, or coordinates
            [N, r].
        target: K points, of another space; the same kind of cost.
        cost: what makes a factor of a `Data` or of coordinates, such as ``HeatCost(t=2.0)``. None:
            centred inner products of coordinates; they determine squared distances, and mislead
            less if lengths disagree. For a `Data` without coordinates: ``HeatCost()``.
        p: [N] masses of the source, non-negative, divided by their sum; None: the same for all.
            If `q` is None as well, known points of the smaller side have that of their partners.
        q: [K] masses of the target.
        epsilon: the temperature at the end, as a share of the critical one, above which all
            points send alike. Small ones give sharp plans. Cooling ends before if rows are so sharp
            that a colder plan would be the same, and goes on if both sides turn out to be
            copies; :attr:`Plan.epsilon` is the last temperature.
        absolute: `epsilon` is in the unit of squared costs instead, and is reached in any case.
        features: [N, d] and [K, d] in one space, whose squared distances are linear costs: fused
            Gromov-Wasserstein (Vayer et al. 2019).
        alpha: in (0, 1), the weight of the structure; features have the rest.
        known_pairs: [2, M] pairs of a source and a target point that are known to correspond. All
            mass goes from the ones to the others that both have, and they pull the rest (with
            `mass` only as much as other points).
        mass: where the sides do not hold the same things, the share in (0, 1] of the smaller side
            that is sent; others get no partner (-1 in :meth:`.Plan.argmax`). Then `p` and `q` are
            the most that points send and receive, in one unit, by default the same for all points
            of both sides. "source" keeps the masses of the source alone, and all its points
            find partners: semi-relaxed, such as a sample that is mapped into an atlas. None: both
            masses are kept.
        starts: some of "heat" (points from which heat spreads alike on neighbour graphs), "costs"
            (points whose costs are distributed alike), "axes" (principal axes, with all signs),
            "zero" (the independent plan); or a plan to go on from. None: all; without "heat" if
            one side has no more than three dimensions.
        tol: of the marginal error `sum |c - q|`, and of the relative change of a solution in a
            step.
        max_iter: steps at the last temperature, after which it is a warning not to have converged.
        seed: of samples and quantisation.
        backend: "torch", "numba", "triton" or "auto".
        progress: show a bar, if there is a terminal to show it in.

    Returns:
        The plan; its `cost` is the objective without the entropy, in the unit of squared costs.

    Raises:
        ValueError: if `epsilon` is too small to be resolved.

    Source: Peyré, Cuturi and Solomon, "Gromov-Wasserstein averaging of kernel and distance
    matrices", ICML 2016 (the entropic problem); Scetbon, Peyré and Cuturi, "Linear-time
    Gromov-Wasserstein distances using low rank couplings and costs", ICML 2022 (factored costs);
    Chapel, Alaya and Gasso, "Partial optimal transport", NeurIPS 2020 (`mass`).

    Example:
        >>> import torch
        >>> x = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0], [4.0, 2.0], [-2.0, 2.0]])
        >>> turned = x.flip(0) @ torch.tensor([[0.6, 0.8], [-0.8, 0.6]])
        >>> gromov_wasserstein(x, turned, progress=False).argmax()
        tensor([4, 3, 2, 1, 0])
    """
    question = read_question(
        source, target, cost=cost, p=p, q=q, features=features, known_pairs=known_pairs,
        epsilon=epsilon, absolute=absolute, alpha=alpha, mass=mass, starts=starts,
        tol=tol, max_iter=max_iter, seed=seed, backend=backend, progress=progress,
    )  # fmt: skip
    return solve(question, cools_copies=True)


def solve(question: Question, cools_copies: bool = False, is_start: bool = False) -> Plan:
    """Find the best plan from the starts.

    `cools_copies`: exact copies are cooled below `epsilon`. `is_start`: another search goes on from
    it, so that there is no warning if it has not converged.
    """
    dtype = torch.promote_types(question.first.x.dtype, question.second.x.dtype)
    question = without_history(question)
    options = question.options
    problem, run = pose(question)
    steps: list[Step] = []
    with open_bar(options.progress, bar_format="Aligning: {desc}{elapsed}") as bar:

        def report(step: Step) -> None:
            step = step._replace(epsilon=step.epsilon * run.unit, cost=step.cost * run.unit)
            steps.append(step)
            bar.set_description(
                f"{step.stage}, epsilon {step.epsilon:.3g}, marginal error "
                f"{step.marginal_error:.1e}, sharpness {step.sharpness:.2f}"
            )

        run = replace(run, report=report)
        if options.mass is None:
            found = _solve_balanced(question, problem, run, cools_copies)
        else:
            found = solve_partial(question, problem, run)
    is_converged = max(found.error, found.moved) < run.tol and not found.is_saddle
    if not (is_converged or is_start):
        _warn(found, question)
    return _make_plan(question, problem, run, found, is_converged, steps, dtype)


def _solve_balanced(question: Question, problem: Problem, run: Run, cools_copies: bool) -> Solved:
    """Find the plan that keeps both masses."""
    starts = question.options.starts
    if isinstance(starts, Plan):
        return finish(problem, follow(problem, starts, run), run)
    points = points_of(question.first), points_of(question.second)
    begun = find_starts(starts, problem, points, run.seed)
    state = descend(problem, race(problem, begun, run), run)
    if cools_copies and run.may_stop:
        problem, state = cool_copies(problem, state, run)
    return finish(problem, state, run)


def _make_plan(
    question: Question,
    problem: Problem,
    run: Run,
    found: Solved,
    is_converged: bool,
    steps: list[Step],
    dtype: torch.dtype,
) -> Plan:
    """Make the plan of scores, with its cost in the user's unit."""
    scores, mass = found.scores, question.options.mass
    first, second = (replace(each, x=each.x.double()) for each in (question.first, question.second))
    sent, received = row_sums(scores), scores.column_sums()
    cost = fused_cost(
        first, second, question.features, question.alpha, partial(average, scores), sent, received
    )
    # Copies: the confidence, computed later, does not see changes of the coordinates.
    left, right = (replace(f, x=f.x.detach().clone()) for f in (question.first, question.second))
    bounds = (question.p, received if mass == "source" else question.q)
    return Plan(
        scores,
        float(cost),
        found.epsilon * run.unit,
        is_converged,
        steps,
        *problem.coordinates,
        partial(near_confidence, left, right, backend=question.options.backend),
        dtype,
        None if mass is None else bounds,
    )


def _warn(found: Solved, question: Question) -> None:
    options = question.options
    if found.is_saddle:
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
        found.error, found.moved, options.tol, options.max_iter, options.epsilon,
    )  # fmt: skip
