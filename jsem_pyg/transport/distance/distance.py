"""The Gromov-Wasserstein objective at its optimum, as a function of what it is made of."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..._checks import check_choice, check_instance
from ..costs.factor import Factor
from ..factored.solver import Task, read_task
from ..plan.plan import Plan
from ..problem.inputs import as_factor
from ..problem.masses import read_masses
from ..problem.options import SolverOptions
from ..sinkhorn.scores import FactoredScores
from .envelope import Objective

DIFFERENTIABLE = ("balanced", "semirelaxed", "unbalanced")  # what may be asked of marginals


def gw_distance(
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
    coarse: int = 300,
    starts: Sequence[str] | Plan | None = None,
    tol: float = 1e-4,
    max_iter: int = 100,
    seed: int = 0,
    backend: str = "auto",
    progress: bool = True,
    plan: Plan | None = None,
) -> Tensor:
    r"""How much two spaces differ: the least that an entropic alignment costs, differentiable.

    .. math::
        F = \min_{\mathbf{T}} \; \alpha \sum_{ijkl} |C_{ik} - D_{jl}|^2 T_{ij} T_{kl}
        + (1 - \alpha) \sum_{ij} |\phi_i - \psi_j|^2 T_{ij}
        + \epsilon \, \mathrm{KL}(\mathbf{T} \,|\, \mathbf{p} \mathbf{q}^T)

    with what penalties and known pairs add. It is squared costs that it counts, and the entropy in:
    spaces that are the same are not at zero, but :attr:`.Plan.cost`, which is without it, goes
    there with epsilon.

    Gradients are exact, by the envelope theorem, up to the solver's tolerance: in the coordinates
    of both sides, and so in whatever a cost makes them of, such as edge weights; in `features`; and
    in `p` and `q`. They are those of a problem at the temperature of the plan, a number in the unit
    of squared costs: that a relative `epsilon`, or `rho`, changes with the data is not seen. Where
    a function is wanted whose values differ as the gradients say, fix `epsilon` with `absolute`,
    and begin at the last plan, so that it stays in one optimum. The gradient in `p` is that of
    masses with the sum one, to which they are brought; at a mass of zero it is one-sided.

    Args:
        source: see :func:`gromov_wasserstein`, like all up to `progress`.
        target: likewise.
        cost: likewise.
        p: likewise.
        q: likewise.
        epsilon: likewise.
        absolute: likewise.
        features: likewise.
        alpha: likewise.
        known_pairs: likewise.
        marginals: "balanced", "semirelaxed" or "unbalanced". Masses whose marginal is penalised,
            or free, have a gradient only if they are positive.
        rho: likewise.
        coarse: likewise.
        starts: likewise.
        tol: likewise. Gradients are off by as much; the value by its square.
        max_iter: likewise.
        seed: likewise.
        backend: likewise.
        progress: likewise.
        plan: the optimum, of the same problem, if it is known already; None: it is looked for.

    Returns:
        F, a number, in the type of the coordinates and the unit of squared costs.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if one is out of range, or shapes do not fit; see :func:`gromov_wasserstein`.

    Source: Peyré, Cuturi and Solomon, "Gromov-Wasserstein averaging of kernel and distance
    matrices", ICML 2016; the gradient as in Xu, Luo and Carin, "Scalable Gromov-Wasserstein
    learning for graph partitioning and matching", NeurIPS 2019, but with its entropy.

    Example:
        >>> import torch
        >>> x = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0]], requires_grad=True)
        >>> gw_distance(x, 2 * x.detach(), progress=False).backward()
        >>> bool((x.grad * x).sum() < 0)  # it falls as x grows
        True
    """
    check_choice("marginals", marginals, DIFFERENTIABLE)
    options = SolverOptions(
        epsilon=epsilon, absolute=absolute, alpha=alpha, marginals=marginals, rho=rho,
        coarse=coarse, starts=starts, tol=tol, max_iter=max_iter, seed=seed, backend=backend,
        progress=progress,
    )  # fmt: skip
    first, second = as_factor("source", source, cost), as_factor("target", target, cost)
    task = read_task(first, second, None, p, q, features, known_pairs, options)
    if plan is None:
        plan = task.solve()
    return value_at(task, plan, first, second, p, q)


def value_at(
    task: Task, plan: Any, first: Factor, second: Factor, p: Tensor | None, q: Tensor | None
) -> Tensor:
    """The objective of a task at its optimum, with gradients in what was given.

    Args:
        task: the problem, without gradients except those of its features.
        plan: its optimum.
        first: the source, with its history.
        second: the target.
        p: masses as they were given.
        q: those of the target.
    """
    scores = _check_plan(plan, task)
    objective = Objective(
        first,
        second,
        read_masses("p", p, first.num_points).to(first.x.device),
        read_masses("q", q, second.num_points).to(second.x.device),
        task.given_features,
        task.alpha,
        task.known_pairs,
        task.relaxation(),
        plan.epsilon,
    )
    _check_free_masses(objective)
    return objective.value(scores).to(first.x.dtype)


def _check_plan(plan: Any, task: Task) -> FactoredScores:
    """The scores of a plan that fits."""
    check_instance("plan", plan, Plan, "a Plan or None")
    shape = (task.first.num_points, task.second.num_points)
    if plan.shape != shape or not isinstance(plan.scores, FactoredScores):
        raise ValueError(
            f"Expected 'plan' to be a plan of gromov_wasserstein between {shape[0]} x {shape[1]} "
            f"points (got {plan.shape[0]} x {plan.shape[1]}, {type(plan.scores).__name__})."
        )
    return plan.scores


def _check_free_masses(objective: Objective) -> None:
    """Raise a ValueError if a gradient is asked for that is not known."""
    relaxation = objective.relaxation
    sides = (
        ("p", objective.p, relaxation.fixes_rows),
        ("q", objective.q, relaxation.fixes_columns),
    )
    for name, mass, is_fixed in sides:
        if mass.requires_grad and not is_fixed and bool((mass == 0).any()):
            raise ValueError(
                f"Expected '{name}' to be positive, as its gradient is asked for and its marginal "
                "is not fixed (got zeros). To fix this, leave these points out."
            )
