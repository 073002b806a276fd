"""Steps of entropic Gromov-Wasserstein transport with a dense plan, at anchors drawn from it."""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..._random import seeded
from ..costs.columns import ColumnCost
from ..costs.cost import Cost, check_symmetry
from ..costs.matrix import MatrixCost
from ..plan.plan import Step
from ..problem.options import SolverOptions
from ..sinkhorn.dense import entropic_plan
from ..solver.task import read_task
from .schedule import SCHEDULE

_ROUNDING = 1e-14  # of temperatures in the unit of costs


class Columns:
    """Columns of a cost matrix between the points [N] that have mass, in units of `unit`.

    Of a :class:`ColumnCost`, or a matrix too large to keep, columns are computed when they are
    drawn, and the latest are kept.
    """

    def __init__(self, cost: Cost, points: Tensor, dtype: torch.dtype, unit: float) -> None:
        self.cost, self.points, self.dtype, self.unit = cost, points, dtype, unit
        self.matrix: Tensor | None = None
        kept = SCHEDULE.columns_kept
        self.column = lru_cache(max(1, kept // points.numel()))(self._column)
        if not isinstance(cost, ColumnCost) and points.numel() ** 2 <= kept:
            self.whole()

    def whole(self) -> Tensor:
        """Compute the matrix [N, N]."""
        if self.matrix is None:
            matrix = self.cost.columns(self.points)[self.points].to(self.dtype) / self.unit
            check_symmetry("columns", matrix)
            self.matrix = (matrix + matrix.mT) / 2
        return self.matrix

    def of(self, anchors: Tensor) -> Tensor:
        """Compute the columns [N, M] of M anchors."""
        if self.matrix is not None:
            return self.matrix[:, anchors]
        return torch.stack([self.column(each) for each in anchors.tolist()], 1)

    def _column(self, anchor: int) -> Tensor:
        column = self.cost.columns(self.points[anchor, None])[self.points, 0]
        return column.to(self.dtype) / self.unit


class Problem(NamedTuple):
    """Two sides, of the points that have mass."""

    source: Columns
    target: Columns
    p: Tensor  # [N] > 0
    q: Tensor  # [K] > 0
    epsilon: float

    def step(self, cost: Tensor, g: Tensor, loose: bool = False) -> tuple[Tensor, Tensor]:
        """Solve entropic transport for a linear cost: log T and the potentials of the columns."""
        score = cost * (-2 / self.epsilon)  # the gradient of a quadratic form is twice the cost
        score -= score.amax(1, keepdim=True)
        is_double = score.dtype == torch.float64
        exact = SCHEDULE.exact_double if is_double else SCHEDULE.exact
        return entropic_plan(score, self.p, self.q, g, *(SCHEDULE.loose if loose else exact))

    def report(self, log_plan: Tensor, cost: float, stage: str) -> Step:
        """Report a plan."""
        plan = log_plan.exp()
        error = float((plan.sum(1, dtype=torch.float64) - self.p).abs().sum())
        error += float((plan.sum(0, dtype=torch.float64) - self.q).abs().sum())
        return Step(stage, self.epsilon, cost, error, float(plan.amax(1).sum()))


Answer = tuple[Tensor, float, bool, list[Step]]


def sampled_steps(problem: Problem, count: int, tol: float, max_iter: int, seed: int) -> Answer:
    """Step at costs that are estimated from `count` pairs, until these fall no more."""
    g = torch.zeros_like(problem.q)
    if min(problem.p.numel(), problem.q.numel()) < 2:
        log_plan = problem.p.log()[:, None] + problem.q.log()
    else:
        log_plan, _ = problem.step(_coarse_cost(problem, seed), g, loose=True)
    generator = seeded(seed)
    mean, weight = torch.zeros_like(log_plan), 0.0
    history: list[Step] = []
    smooth, norm, best, waited, converged = 0.0, 0.0, float("inf"), 0, False
    for _ in range(max_iter):
        plan = log_plan.exp()
        estimate = _estimate(problem, plan, count, generator)
        cost = float((estimate * plan).sum(dtype=torch.float64))
        smooth, norm = (
            SCHEDULE.smooth * smooth + (1 - SCHEDULE.smooth) * cost,
            SCHEDULE.smooth * norm + 1 - SCHEDULE.smooth,
        )
        if smooth / norm < best * (1 - tol):
            best, waited = smooth / norm, 0
        else:
            waited += 1
        if waited >= SCHEDULE.patience:
            converged = True
            break
        mean.mul_(SCHEDULE.averaging).add_(estimate, alpha=1 - SCHEDULE.averaging)
        weight = SCHEDULE.averaging * weight + 1 - SCHEDULE.averaging
        log_plan, g = problem.step(mean / weight, g, loose=True)
        history.append(problem.report(log_plan, cost, "sampled"))
    if weight > 0:
        log_plan, g = problem.step(mean / weight, g)
    plan = log_plan.exp()
    is_known = problem.source.matrix is not None and problem.target.matrix is not None
    if is_known or max(plan.shape) <= SCHEDULE.draws * count:  # which no estimate is cheaper than
        return log_plan, _exact_cost(problem, plan), converged, history
    costs = []
    for _ in range(SCHEDULE.draws):
        estimate = _estimate(problem, plan, count, generator)
        costs.append(float((estimate * plan).sum(dtype=torch.float64)))
    return log_plan, sum(costs) / len(costs), converged, history


def _estimate(problem: Problem, plan: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Average |C_ik - D_jl|^2 over pairs (k, l) drawn from the plan: [N, K]."""
    row = torch.multinomial(problem.p.cpu(), count, replacement=True, generator=generator)
    share = plan[row.to(plan.device)].cpu()
    column = torch.multinomial(share, 1, generator=generator)[:, 0]
    c, d = problem.source.of(row), problem.target.of(column)
    out = torch.addmm(c.square().sum(1)[:, None] + d.square().sum(1), c, d.T, alpha=-2)
    return out.mul_(1 / count).clamp_(min=0)


def _exact_cost(problem: Problem, plan: Tensor) -> float:
    """Compute the objective of a plan: the sum of |C_ik - D_jl|^2 T_ij T_kl."""
    c, d = problem.source.whole(), problem.target.whole()
    linear = (c.square() @ plan.sum(1))[:, None] + d.square() @ plan.sum(0) - 2 * (c @ plan @ d)
    return float((linear * plan).sum(dtype=torch.float64))


def critical_epsilon(problem: Problem, seed: int) -> float:
    """Estimate the lowest temperature at which the independent plan is stable; one, if none is.

    Near it, T = p q (1 + z), so that z -> 4 C z D / epsilon, with C and D centred by their masses.
    """
    generator = seeded(seed)
    top = []
    for side, mass in ((problem.source, problem.p), (problem.target, problem.q)):
        count = min(SCHEDULE.critical_sample, mass.numel())
        chosen = torch.multinomial(mass.cpu(), count, generator=generator)
        block = side.of(chosen)[chosen].double()
        weight = mass[chosen].double() if count == mass.numel() else torch.ones_like(block[0])
        weight = weight / weight.sum()
        mean = block @ weight
        block = block - mean[:, None] - mean + weight @ mean
        root = weight.sqrt()
        value = torch.linalg.eigvalsh(root[:, None] * (block + block.mT) / 2 * root)
        top.append(float(value.abs().max()))
    critical = 4 * top[0] * top[1]
    return critical if critical > _ROUNDING else 1.0


def _coarse_cost(problem: Problem, seed: int) -> Tensor:
    """Compute the linear cost [N, K] of the plan between some points of either side."""
    generator = seeded(seed)
    anchors, blocks, columns = [], [], []
    for side, mass in ((problem.source, problem.p), (problem.target, problem.q)):
        count = min(SCHEDULE.coarse, mass.numel())
        anchors.append(torch.multinomial(mass.cpu(), count, generator=generator))
        columns.append(side.of(anchors[-1]))
        block = columns[-1][anchors[-1]]
        blocks.append((block + block.mT) / 2)
    epsilon = max(problem.epsilon / critical_epsilon(problem, seed), SCHEDULE.coarse_epsilon)
    options = SolverOptions(epsilon, tol=SCHEDULE.coarse_tol, seed=seed, progress=False)
    first, second = blocks
    task = read_task(first, second, MatrixCost(SCHEDULE.coarse), None, None, None, None, options)
    table = task.solve(is_start=True).dense().to(blocks[0])
    c, d = columns
    linear = (c.square() @ table.sum(1))[:, None] + d.square() @ table.sum(0)
    return linear - 2 * (c @ table @ d.mT)
