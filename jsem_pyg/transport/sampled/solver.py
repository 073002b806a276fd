"""Gromov-Wasserstein transport with costs that have no good factor: anchors drawn from the plan."""

import logging

import torch
from torch import Tensor

from ..._checks import check_positive_int
from ..._precision import full_precision
from ..costs.columns import read_cost
from ..costs.cost import Cost, check_cost_range
from ..plan.plan import Plan
from ..plan.scores import DenseScores
from ..problem.masses import read_masses
from ..problem.options import SolverOptions
from .schedule import SCHEDULE
from .steps import Columns, Problem, critical_epsilon, sampled_steps

_log = logging.getLogger(__name__)

LARGEST = 1 << 26  # entries of a plan


def sampled_gromov_wasserstein(
    source: Tensor | Cost,
    target: Tensor | Cost,
    *,
    p: Tensor | None = None,
    q: Tensor | None = None,
    epsilon: float = 0.05,
    absolute: bool = False,
    num_anchors: int = 100,
    tol: float = 1e-4,
    max_iter: int = 300,
    seed: int = 0,
) -> Plan:
    r"""Align two spaces by costs that are only known column by column.

    A step linearises the objective, :math:`\sum |C_{ik} - D_{jl}|^2 T_{ij} T_{kl}`, and solves the
    entropic transport problem that results. Its cost is an expectation over pairs (k, l) that are
    distributed as the plan, so some drawn pairs and their columns estimate it without bias:

    .. math::
        \Lambda_{ij} = \frac{1}{M} \sum_m |C_{i k_m} - D_{j l_m}|^2

    Estimates are averaged over the steps. These begin at the best plan between some points of
    either side. If costs have a factor, :func:`.gromov_wasserstein` needs neither draws nor a
    plan [N, K].

    Args:
        source: a symmetric matrix [N, N], or a cost with columns, such as a :class:`Factor`. Of a
            :class:`ColumnCost`, such as of shortest paths, only columns that are drawn are
            computed, and the latest are kept.
        target: the same of the other side, [K, K]. N K is at most 2^26.
        p: [N] masses of the source points, divided by their sum; None: the same for all.
        q: [K] masses of the target points, likewise.
        epsilon: the temperature, as a share of the critical one, above which plans are blurred
            (estimated from at most 256 points of each side); costs over it have to be in the range
            of their type.
        absolute: whether `epsilon` is in the unit of squared costs instead.
        num_anchors: pairs M that are drawn in a step.
        tol: relative improvement of the smoothed cost that counts.
        max_iter: at most how many steps.
        seed: of the draws.

    Returns:
        The plan, in the type of the costs. Its cost is exact, unless a side has more points
        than the twentyfold of `num_anchors` and is a :class:`ColumnCost`, or has more than 2^13:
        then it is estimated from as many pairs.

    Raises:
        ValueError: if the plan would be too large.

    Source:
        T. Kerdoncuff, R. Emonet, M. Sebban, "Sampled Gromov Wasserstein", Machine Learning 110,
        2021.

    Example:
        >>> position = torch.tensor([0.0, 1.0, 3.0, 7.0, 15.0])
        >>> cost = (position[:, None] - position).abs()
        >>> order = torch.tensor([3, 1, 4, 0, 2])
        >>> other = cost[order][:, order]
        >>> sampled_gromov_wasserstein(cost, other).argmax()
        tensor([3, 1, 4, 0, 2])
    """
    SolverOptions(epsilon=epsilon, absolute=absolute, tol=tol, max_iter=max_iter, seed=seed)
    check_positive_int("num_anchors", num_anchors)
    sides = read_cost("source", source), read_cost("target", target)
    sizes = sides[0].num_points, sides[1].num_points
    if sizes[0] * sizes[1] > LARGEST:
        raise ValueError(
            f"Expected a plan of at most {LARGEST} entries (got {sizes[0]} x {sizes[1]}). To fix "
            "this, factor the costs and call gromov_wasserstein, which stores no plan."
        )
    masses = [
        read_masses(name, mass, size).detach().cpu()
        for name, mass, size in zip("pq", (p, q), sizes, strict=True)
    ]
    with torch.no_grad():
        looks = [
            side.columns(mass.argmax()[None]) for side, mass in zip(sides, masses, strict=True)
        ]
        dtype = torch.promote_types(looks[0].dtype, looks[1].dtype)
        masses = [mass.to(dtype) for mass in masses]
        points = [mass.nonzero()[:, 0] for mass in masses]
        scales = [float(look.abs().max()) for look in looks]
        for name, scale in zip(("source", "target"), scales, strict=True):
            check_cost_range(name, scale)
        unit = max(scales) or 1.0
        first, second = (
            Columns(side, where, dtype, unit) for side, where in zip(sides, points, strict=True)
        )
        left, right = (
            mass[where].to(looks[0].device) for mass, where in zip(masses, points, strict=True)
        )
        problem = Problem(first, second, left, right, epsilon / unit**2)
        if not absolute:
            problem = problem._replace(epsilon=epsilon * critical_epsilon(problem, seed))
        coldest = torch.finfo(dtype).tiny ** 0.5
        if problem.epsilon < coldest:
            raise ValueError(
                f"Expected 'epsilon' of a temperature of at least {coldest * unit**2:.3g}, in the "
                f"unit of squared costs (got {problem.epsilon * unit**2:.3g})."
            )
        with full_precision(problem.p.device):
            log_plan, cost, converged, history = sampled_steps(
                problem, num_anchors, tol, max_iter, seed
            )
    # Of the plan that is returned: scaling a sharp one to its masses takes very long.
    error = problem.report(log_plan, cost, "").marginal_error
    converged = converged and error <= SCHEDULE.marginal_error
    if not converged:
        _log.warning(
            "sampled_gromov_wasserstein has not converged in %d steps: the marginal error is %.1e. "
            "To fix this, allow more 'max_iter', draw more 'num_anchors', or raise 'epsilon' or "
            "'tol'.",
            max_iter,
            error,
        )
    table = log_plan.new_full(sizes, -torch.inf)
    table[points[0][:, None], points[1]] = log_plan / torch.log(log_plan.new_tensor(2.0))
    history = [
        step._replace(epsilon=step.epsilon * unit**2, cost=step.cost * unit**2) for step in history
    ]
    return Plan(DenseScores(table), cost * unit**2, problem.epsilon * unit**2, converged, history)
