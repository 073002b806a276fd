"""Gromov-Wasserstein transport with costs that have no good factor: anchors drawn from the plan."""

import logging
from typing import Any

import torch
from torch import Tensor

from ..._checks import (
    check_choice,
    check_finite,
    check_float,
    check_instance,
    check_nonnegative_int,
    check_positive,
    check_positive_int,
)
from ..._precision import full_precision
from ..costs.cost import Cost, read_cost
from ..plan.plan import Plan
from ..problem.masses import read_masses
from ..sinkhorn.scores import DenseScores
from .columns import MODES, Columns, Matrix, prepare
from .steps import Options, Problem, coarse_cost, exact_steps, sampled_steps

_log = logging.getLogger(__name__)

LARGEST = 1 << 26  # entries of a plan


def sampled_gromov_wasserstein(
    source: Tensor | Cost,
    target: Tensor | Cost,
    *,
    epsilon: float,
    p: Tensor | None = None,
    q: Tensor | None = None,
    mode: str = "precomputed",
    num_anchors: int | None = 100,
    num_landmarks: int = 100,
    max_iter: int = 300,
    averaging: float = 0.8,
    tol: float = 1e-4,
    patience: int = 30,
    starts: Plan | Tensor | str = "coarse",
    seed: int = 0,
) -> Plan:
    r"""Align two spaces by costs that are only known column by column.

    A step linearises the objective, :math:`\sum |C_{ik} - D_{jl}|^2 T_{ij} T_{kl}`, and solves the
    entropic transport problem that results. Its cost is an expectation over pairs (k, l) that are
    distributed as the plan, so some drawn pairs and their columns estimate it without bias:

    .. math::
        \Lambda_{ij} = \frac{1}{M} \sum_m |C_{i k_m} - D_{j l_m}|^2

    Estimates are averaged over the steps. Without sampling (`num_anchors=None`) the cost is exact,
    and a step is shortened until the objective, with its entropy, does not rise.

    Where costs have a factor, :func:`.gromov_wasserstein` needs neither draws nor a plan [N, K].

    Args:
        source: a symmetric matrix [N, N], or a cost with columns, such as :class:`ColumnCost`,
            :func:`geodesic_columns` or a :class:`Factor`.
        target: the same of the other side, [K, K]. N K is at most 2^26.
        epsilon: the temperature > 0, in the unit of squared costs, as that of
            :func:`.gromov_wasserstein` with `absolute=True`.
        p: [N] masses of the source points, divided by their sum; None: the same for all.
        q: [K] masses of the target points, likewise.
        mode: "precomputed", all columns are computed once and kept; "per_anchor", those that are
            drawn, and the latest are kept; "landmark", those of a few far points, from which the
            others are approximated (Nyström), so that costs are not exact.
        num_anchors: pairs M that are drawn in a step; None: the exact gradient, of all pairs, for
            which all columns are needed.
        num_landmarks: how many landmarks, for that mode.
        max_iter: at most how many steps.
        averaging: the weight in [0, 1) of the past in the mean of the estimates.
        tol: relative improvement of the smoothed cost that counts, and, without sampling, the part
            of the mass that a step moves when it is the last.
        patience: steps without improvement after which to stop.
        starts: a plan to begin from, such as that of a similar problem, [N, K] non-negative; or
            "coarse", the best plan between some points of either side, by
            :func:`.batch_gromov_wasserstein`; or "independent", p q^T.
        seed: of the draws.

    Returns:
        The plan, in the type of the costs. Its cost is that of the plan where all columns are kept,
        else an estimate from twenty times as many pairs as a step draws.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if a matrix is not symmetric, costs or masses are not finite, shapes do not fit,
            a number is out of its range, or the plan would be too large.

    Source:
        T. Kerdoncuff, R. Emonet, M. Sebban, "Sampled Gromov Wasserstein", Machine Learning 110,
        2021; the exact steps are those of G. Peyré, M. Cuturi, J. Solomon, "Gromov-Wasserstein
        averaging of kernel and distance matrices", 2016, equation 8.

    Example:
        >>> position = torch.tensor([0.0, 1.0, 3.0, 7.0, 15.0])
        >>> cost = (position[:, None] - position).abs()
        >>> order = torch.tensor([3, 1, 4, 0, 2])
        >>> other = cost[order][:, order]
        >>> sampled_gromov_wasserstein(cost, other, epsilon=0.5, num_anchors=None).argmax()
        tensor([3, 1, 4, 0, 2])
    """
    check_positive("epsilon", epsilon)
    check_choice("mode", mode, MODES)
    for name, count in (
        ("num_landmarks", num_landmarks),
        ("max_iter", max_iter),
        ("patience", patience),
    ):
        check_positive_int(name, count)
    if num_anchors is not None:
        check_positive_int("num_anchors", num_anchors)
    elif mode != "precomputed":
        raise ValueError(
            f"Expected 'mode' to be 'precomputed' with num_anchors=None (got {mode!r}): the exact "
            "gradient takes all columns. To fix this, say how many pairs to draw."
        )
    check_positive("tol", tol)
    check_nonnegative_int("seed", seed)
    _check_averaging(averaging)
    sides = read_cost("source", source), read_cost("target", target)
    sizes = tuple(side.num_points for side in sides)
    if sizes[0] * sizes[1] > LARGEST:
        raise ValueError(
            f"Expected a plan of at most {LARGEST} entries (got {sizes[0]} x {sizes[1]}). To fix "
            "this, factor the costs and call gromov_wasserstein, which stores no plan."
        )
    masses = (
        read_masses("p", p, sizes[0]).detach().cpu(),
        read_masses("q", q, sizes[1]).detach().cpu(),
    )
    points = tuple(mass.nonzero()[:, 0] for mass in masses)
    with torch.no_grad():
        columns = [
            prepare(side, where, mode, num_landmarks)
            for side, where in zip(sides, points, strict=True)
        ]
        problem = _problem(columns, masses, points, epsilon)
        first = _first_plan(starts, sizes, points, problem, seed)
        options = Options(num_anchors, max_iter, averaging, tol, patience, seed)
        with full_precision(problem.p.device):
            solve = exact_steps if num_anchors is None else sampled_steps
            log_plan, cost, converged, history = solve(problem, first, options)
    if not converged:
        _log.warning(
            "sampled_gromov_wasserstein has not converged in %d steps. To fix this, allow more "
            "'max_iter', draw more 'num_anchors', or raise 'epsilon' or 'tol'.",
            max_iter,
        )
    table = log_plan.new_full(sizes, -torch.inf)
    table[points[0][:, None], points[1]] = log_plan / torch.log(log_plan.new_tensor(2.0))
    return Plan(DenseScores(table), cost, epsilon, converged, history)


def _first_plan(
    starts: Plan | Tensor | str,
    sizes: tuple[int, ...],
    points: tuple[Tensor, ...],
    problem: Problem,
    seed: int,
) -> Tensor:
    """Log T [N, K] of the points that have mass, with the marginals asked for."""
    independent = problem.p.log()[:, None] + problem.q.log()
    if isinstance(starts, str):
        check_choice("starts", starts, ("coarse", "independent"))
        if starts == "independent" or min(independent.shape) < 2:
            return independent
        return problem.step(coarse_cost(problem, seed), torch.zeros_like(problem.q))[0]
    check_instance("starts", starts, (Plan, Tensor), "a Plan, a tensor [N, K], or a name")
    given = starts.dense() if isinstance(starts, Plan) else starts
    check_float("starts", given)
    if given.shape != sizes:
        raise ValueError(
            f"Expected 'starts' to have shape {list(sizes)} (got {list(given.shape)})."
        )
    check_finite("starts", given)
    if bool((given < 0).any()):
        raise ValueError(f"Expected 'starts' to be non-negative (got {float(given.min())}).")
    plan = given.detach().to(independent)[points[0][:, None], points[1]]
    # A whisper of the independent plan, so that marginals can be met wherever zeros are.
    total = plan.sum(dtype=torch.float64).clamp(min=torch.finfo(plan.dtype).tiny).to(plan)
    score = (plan / total + 1e-6 * independent.exp()).log()
    return problem.project(score, torch.zeros_like(problem.q))[0]


def _check_averaging(averaging: Any) -> None:
    if isinstance(averaging, bool) or not isinstance(averaging, (int, float)):
        raise TypeError(f"Expected 'averaging' to be a number (got {averaging!r}).")
    if not 0 <= averaging < 1:
        raise ValueError(f"Expected 'averaging' to lie in [0, 1) (got {averaging}).")


def _problem(
    columns: list[Columns], masses: tuple[Tensor, ...], points: tuple[Tensor, ...], epsilon: float
) -> Problem:
    one = torch.zeros(1, dtype=torch.int64)
    looks = [each.of(one) for each in columns]
    dtype = torch.promote_types(looks[0].dtype, looks[1].dtype)
    p, q = (
        mass[where].to(looks[0].device, dtype) for mass, where in zip(masses, points, strict=True)
    )
    return Problem(
        _As(columns[0], dtype).unwrapped, _As(columns[1], dtype).unwrapped, p, q, epsilon
    )


class _As:
    """Columns in another type."""

    def __init__(self, columns: Columns, dtype: torch.dtype) -> None:
        self.columns, self.dtype = columns, dtype

    @property
    def unwrapped(self) -> Columns:
        """A matrix stays one."""
        if isinstance(self.columns, Matrix):
            return Matrix(self.columns.matrix.to(self.dtype))
        return self

    def of(self, anchors: Tensor) -> Tensor:
        """The columns [N, M] of M anchors."""
        return self.columns.of(anchors).to(self.dtype)
