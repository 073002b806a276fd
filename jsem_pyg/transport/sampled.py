"""Gromov-Wasserstein transport with costs that have no good factor: anchors drawn from the plan."""

import logging
import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from .._checks import check_positive_int
from .._random import seeded
from ..kernels.torch_func import without_autocast
from .costs import Cost, MatrixCost, read_cost
from .costs.cost import check_cost_range, check_symmetry
from .plan.plan import Plan, Step
from .plan.scores import DenseScores
from .problem.masses import read_masses
from .problem.options import SolverOptions
from .solver.pose import read_question
from .solver.solver import solve

_log = logging.getLogger(__name__)

COARSE = 128  # points of a coarse problem, whose plan is the start
SAMPLE = 256  # points that the critical temperature is estimated from
COARSE_EPSILON, COARSE_TOL = 0.01, 1e-2  # the lowest temperature of the coarse problem
LOOSE, EXACT = (1e-3, 50), (1e-6, 2000)  # marginal error and iterations: in a step, in the end
AVERAGING = 0.8  # weight of the past in the mean of the estimates
SMOOTHED = 30  # steps whose costs are averaged, to see whether these still fall
PATIENCE = 30  # steps without improvement after which to stop
DRAWS = 20  # times as many pairs as in a step estimate the final cost
COLUMNS_KEPT = 1 << 26  # numbers
LARGEST = 1 << 26  # entries of a plan
MARGINAL_ERROR = 1e-3  # in a plan that has converged
MOST_BITS = 2.0**38  # of scores
FAR = 1e15  # scalings beyond this go into the potentials
LOOK_EVERY = 5  # iterations between looks at the marginals


@torch.no_grad()
@without_autocast
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
    either side. If costs have a factor, :func:`.gromov_wasserstein` needs neither draws nor a plan
    [N, K].

    Args:
        source: a symmetric matrix [N, N], or a cost with columns, such as a :class:`Factor`. Only
            columns that are drawn are computed, such as shortest paths of a :class:`ColumnCost`,
            and the latest are kept.
        target: the same of the other side, [K, K]. N K is at most 2^26.
        p: [N] masses, as in :func:`.gromov_wasserstein`.
        q: [K] masses, likewise.
        epsilon: the temperature, likewise; the critical one is estimated from at most 256 points
            of each side.
        absolute: likewise.
        num_anchors: pairs M that are drawn in a step.
        tol: relative improvement of the smoothed cost that counts.
        max_iter: at most how many steps.
        seed: of the draws.

    Returns:
        The plan, in the type of the costs. Its cost is exact, unless a side has more points than
        the twentyfold of `num_anchors`: then it is estimated from as many pairs.

    Raises:
        ValueError: if the plan would be too large, or `epsilon` is too small to be resolved.

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
    looks = [side.columns(torch.zeros(1, dtype=torch.int64)) for side in sides]
    like = looks[0].to(torch.promote_types(looks[0].dtype, looks[1].dtype))
    p, q = (
        read_masses(name, mass, size).detach().to(like)
        for name, mass, size in zip("pq", (p, q), sizes, strict=True)
    )
    columns = [_reader(side, like) for side in sides]
    generator = seeded(seed)
    temperature, mean = _start(columns, (p, q), epsilon, absolute, generator)
    g = torch.zeros_like(q)
    costs, best, waited, history = list[float](), torch.inf, 0, list[Step]()
    while waited < PATIENCE and len(history) < max_iter:
        log_plan, g, error = entropic_plan(mean * (-2 / temperature), p, q, g, *LOOSE)
        plan = log_plan.exp()
        estimate = _estimate(*_draw(plan, p, columns, num_anchors, generator))
        costs.append(_total(estimate, plan))
        history.append(Step("sampled", temperature, costs[-1], error, float(plan.amax(1).sum())))
        smooth = sum(costs[-SMOOTHED:]) / len(costs[-SMOOTHED:])
        best, waited = (smooth, 0) if smooth < best * (1 - tol) else (best, waited + 1)
        mean.mul_(AVERAGING).add_(estimate, alpha=1 - AVERAGING)
    log_plan, _, error = entropic_plan(mean * (-2 / temperature), p, q, g, *EXACT)
    plan = log_plan.exp()
    if max(sizes) <= DRAWS * num_anchors:  # no more columns than an estimate takes
        c, d = (read(torch.arange(size)) for read, size in zip(columns, sizes, strict=True))
        cost = _total(_linear_cost(c, d, plan), plan)
    else:
        drawn = (_draw(plan, p, columns, num_anchors, generator) for _ in range(DRAWS))
        cost = sum(_total(_estimate(*pair), plan) for pair in drawn) / DRAWS
    converged = waited == PATIENCE and error <= MARGINAL_ERROR
    if not converged:
        _log.warning(
            "sampled_gromov_wasserstein has not converged in %d steps: the marginal error is %.1e. "
            "To fix this, allow more 'max_iter', draw more 'num_anchors', or raise 'epsilon' or "
            "'tol'.",
            max_iter,
            error,
        )
    scores = DenseScores(log_plan / math.log(2))
    return Plan(scores, cost, temperature, converged, history)


Columns = Callable[[Tensor], Tensor]  # from nodes [M] to columns [N, M]


def _reader(cost: Cost, like: Tensor) -> Columns:
    """Read columns one by one, and keep the latest."""

    @lru_cache(max(1, COLUMNS_KEPT // cost.num_points))
    def column(node: int) -> Tensor:
        return cost.columns(torch.tensor([node]))[:, 0].to(like)

    return lambda nodes: torch.stack([column(node) for node in nodes.tolist()], 1)


def _start(
    columns: list[Columns],
    masses: tuple[Tensor, Tensor],
    epsilon: float,
    absolute: bool,
    generator: torch.Generator,
) -> tuple[float, Tensor]:
    """Find the temperature, and the linear cost [N, K] of the plan between some points."""
    blocks, among = [], []
    for name, mass, read in zip(("source", "target"), masses, columns, strict=True):
        count = min(SAMPLE, int((mass > 0).sum()))
        nodes = torch.multinomial(mass.cpu(), count, generator=generator)
        blocks.append(read(nodes))
        among.append(blocks[-1][nodes])
        check_cost_range(name, float(blocks[-1].abs().max()))
        check_symmetry(name, among[-1])
    critical = _critical_epsilon(among)
    temperature = epsilon if absolute else epsilon * critical
    bits = 4 * float(blocks[0].abs().max() * blocks[1].abs().max()) / temperature
    if bits > MOST_BITS:
        raise ValueError(
            f"Expected 'epsilon' of a temperature of at least {temperature * bits / MOST_BITS:.3g},"
            f" in the unit of squared costs (got {temperature:.3g})."
        )
    first, second = (each[:COARSE, :COARSE] for each in among)
    question = read_question(
        first, second, cost=MatrixCost(COARSE), epsilon=max(temperature / critical, COARSE_EPSILON),
        tol=COARSE_TOL, progress=False,
    )  # fmt: skip
    plan = solve(question, is_start=True).dense().to(blocks[0])
    c, d = (each[:, :COARSE] for each in blocks)
    return temperature, _linear_cost(c, d, plan)


def _critical_epsilon(blocks: list[Tensor]) -> float:
    """Estimate the lowest temperature at which the independent plan is stable; one, if none is.

    Near it, T = p q (1 + z), so that z -> 4 C z D / epsilon, with C and D centred.
    """
    top, size = 4.0, 1.0
    for block in blocks:
        mean = block.double().mean(0)
        centred = (block - mean - mean[:, None] + mean.mean()) / len(block)
        top *= float(torch.linalg.eigvalsh((centred + centred.T) / 2).abs().max())
        size *= float(block.abs().max())
    return top if top > 1e-14 * size else 1.0


def _linear_cost(c: Tensor, d: Tensor, plan: Tensor) -> Tensor:
    """Sum |C_ik - D_jl|^2 T_kl, of columns [N, M] and [K, L] and a plan [M, L] between them."""
    squares = (c.square() @ plan.sum(1))[:, None] + d.square() @ plan.sum(0)
    return squares.addmm_(c @ plan, d.T, alpha=-2).clamp_(min=0)


def _estimate(c: Tensor, d: Tensor) -> Tensor:
    """Average |C_ik - D_jl|^2 over pairs (k, l), of their columns [N, M] and [K, M]."""
    squares = c.square().mean(1)[:, None] + d.square().mean(1)
    return squares.addmm_(c, d.T, alpha=-2 / c.size(1)).clamp_(min=0)


def _total(linear: Tensor, plan: Tensor) -> float:
    return float((linear * plan).sum(dtype=torch.float64))


def _draw(
    plan: Tensor, p: Tensor, columns: list[Columns], count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw pairs (k, l) from the plan: the columns [N, M] and [K, M] of both."""
    row = torch.multinomial(p.cpu(), count, replacement=True, generator=generator)
    share = plan[row.to(plan.device)].cpu()
    column = torch.multinomial(share, 1, generator=generator)[:, 0]
    return columns[0](row), columns[1](column)


def entropic_plan(
    score: Tensor, p: Tensor, q: Tensor, g: Tensor, tol: float, max_iterations: int
) -> tuple[Tensor, Tensor, float]:
    """Find T = exp(f_i + score_ij + g_j) of marginals p and q: log T [N, K], g [K], and the error.

    It begins at `g` [K], and ends when the marginal error sum_i |T 1 - p|_i is `tol`, or after so
    many iterations; columns are exact. Potentials are kept as logarithms. Between two exponentials
    of the table, scalings of its rows and columns do the same by products with vectors, as long as
    they stay in range.

    Source: B. Schmitzer, "Stabilized sparse scaling algorithms for entropy regularized transport
    problems", 2019, section 3.
    """
    done, log_p, log_q = 0, p.log(), q.log()
    while True:
        table = score + (log_p - torch.logsumexp(score + g, 1))[:, None]
        g = log_q - torch.logsumexp(table, 0)
        kernel = table.add_(g).exp()
        u, v = torch.ones_like(p), torch.ones_like(q)
        while True:
            received = kernel @ v
            if done % LOOK_EVERY == 0 or done >= max_iterations:
                error = float((u * received - p).abs().sum(dtype=torch.float64))
                if error <= tol or done >= max_iterations:
                    return table.add_(u.log()[:, None]).add_(v.log()), g + v.log(), error
            done += 1
            next_u = torch.where(p > 0, p / received, 1)
            next_v = torch.where(q > 0, q / (next_u @ kernel), 1)
            scalings = torch.cat([next_u, next_v])
            if not 1 / FAR < scalings.amin() <= scalings.amax() < FAR:
                g = g + v.log()
                break
            u, v = next_u, next_v
