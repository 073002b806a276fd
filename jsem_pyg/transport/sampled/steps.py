"""Steps of entropic Gromov-Wasserstein transport with a dense plan, at anchors drawn from it."""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..._precision import power_of_two
from ..._random import seeded
from ..costs.columns import ColumnCost
from ..costs.cost import Cost, check_squares, check_symmetry
from ..costs.matrix import MatrixCost
from ..factored.solver import read_task
from ..plan.plan import Step
from ..problem.options import SolverOptions
from ..sinkhorn.dense import entropic_plan

_INNER = 2000  # Sinkhorn iterations of a step, at most
_LOOSE, _LOOSE_TOL = 50, 1e-3  # the same of a step at an estimated cost
_INNER_TOL = {torch.float32: 1e-6, torch.float64: 1e-12}  # the marginal error that ends them
_AVERAGING = 0.8  # weight of the past in the mean of the estimates
_PATIENCE = 30  # steps without improvement after which to stop
_SMOOTH = 0.9  # of the costs that the plateau is looked for in
_COARSE = 128  # points of a coarse problem
_COARSE_EPSILON = 0.01  # its lowest temperature, as a share of the critical one
_COARSE_TOL = 1e-2
_SAMPLED = 256  # points that the critical temperature is estimated from
_DRAWS = 20  # times as many pairs as in a step estimate the final cost
_KEPT = 1 << 26  # numbers of columns that are kept


class Columns:
    """Columns of a cost matrix between the points [N] that have mass.

    Of a :class:`ColumnCost`, or a matrix too large to keep, columns are computed when they are
    drawn, and the latest are kept.
    """

    def __init__(self, cost: Cost, points: Tensor, dtype: torch.dtype) -> None:
        self.cost, self.points, self.dtype = cost, points, dtype
        self.matrix: Tensor | None = None
        self.unit = 1.0  # the divisor of what is returned
        self.column = lru_cache(max(1, _KEPT // points.numel()))(self._column)
        if not isinstance(cost, ColumnCost) and points.numel() ** 2 <= _KEPT:
            self.whole()

    def whole(self) -> Tensor:
        """The matrix [N, N]."""
        if self.matrix is None:
            matrix = self.cost.columns(self.points)[self.points].to(self.dtype)
            check_symmetry("columns", matrix)
            self.matrix = matrix / 2 + matrix.mT / 2
        return self.matrix / self.unit

    def of(self, anchors: Tensor) -> Tensor:
        """The columns [N, M] of M anchors."""
        if self.matrix is not None:
            return self.matrix[:, anchors] / self.unit
        return torch.stack([self.column(each) for each in anchors.tolist()], 1) / self.unit

    def _column(self, anchor: int) -> Tensor:
        return self.cost.columns(self.points[anchor, None])[self.points, 0].to(self.dtype)


def common_unit(sides: tuple[Columns, Columns], looks: list[Tensor]) -> float:
    """A power of two near the largest cost that is known yet: in it, squares stay in range.

    `looks` are some columns of each side.
    """
    largest = torch.zeros((), dtype=torch.float64)
    for side, look in zip(sides, looks, strict=True):
        known = look if side.matrix is None else side.matrix
        largest = torch.maximum(largest, known.abs().max().double().cpu())
    check_squares("costs", largest, 4)
    unit = float(power_of_two(largest)) if largest > 0 else 1.0
    for side in sides:
        side.unit = unit
    return unit


class Problem(NamedTuple):
    """Two sides, of the points that have mass."""

    source: Columns
    target: Columns
    p: Tensor  # [N] > 0
    q: Tensor  # [K] > 0
    epsilon: float

    @property
    def coldest(self) -> float:
        """A temperature below which plans are the same: scores of costs of order one overflow."""
        return float(torch.finfo(self.p.dtype).tiny ** 0.5)

    def step(self, cost: Tensor, g: Tensor, loose: bool = False) -> tuple[Tensor, Tensor]:
        """Entropic transport for a linear cost: log T and the potentials of the columns."""
        score = cost * (-2 / self.epsilon)  # the gradient of a quadratic form is twice the cost
        score -= score.amax(1, keepdim=True)
        tol, most = (_LOOSE_TOL, _LOOSE) if loose else (_INNER_TOL[score.dtype], _INNER)
        return entropic_plan(score, self.p, self.q, g, tol, most)

    def report(self, log_plan: Tensor, cost: float, stage: str) -> Step:
        """Result of the steps."""
        plan = log_plan.exp()
        error = float((plan.sum(1, dtype=torch.float64) - self.p).abs().sum())
        error += float((plan.sum(0, dtype=torch.float64) - self.q).abs().sum())
        return Step(stage, self.epsilon, cost, error, float(plan.amax(1).sum()))


Answer = tuple[Tensor, float, bool, list[Step]]


def sampled_steps(problem: Problem, count: int, tol: float, max_iter: int, seed: int) -> Answer:
    """Steps at costs that are estimated from so many pairs, until these fall no more."""
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
        smooth, norm = _SMOOTH * smooth + (1 - _SMOOTH) * cost, _SMOOTH * norm + 1 - _SMOOTH
        if smooth / norm < best * (1 - tol):
            best, waited = smooth / norm, 0
        else:
            waited += 1
        if waited >= _PATIENCE:
            converged = True
            break
        mean.mul_(_AVERAGING).add_(estimate, alpha=1 - _AVERAGING)
        weight = _AVERAGING * weight + 1 - _AVERAGING
        log_plan, g = problem.step(mean / weight, g, loose=True)
        history.append(problem.report(log_plan, cost, "sampled"))
    if weight > 0:
        log_plan, g = problem.step(mean / weight, g)
    plan = log_plan.exp()
    is_known = problem.source.matrix is not None and problem.target.matrix is not None
    if is_known or max(plan.shape) <= _DRAWS * count:  # which no estimate is cheaper than
        return log_plan, _exact_cost(problem, plan), converged, history
    costs = []
    for _ in range(_DRAWS):
        estimate = _estimate(problem, plan, count, generator)
        costs.append(float((estimate * plan).sum(dtype=torch.float64)))
    return log_plan, sum(costs) / len(costs), converged, history


def _estimate(problem: Problem, plan: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """The mean of |C_ik - D_jl|^2 over pairs (k, l) drawn from the plan: [N, K]."""
    row = torch.multinomial(problem.p.cpu(), count, replacement=True, generator=generator)
    share = plan[row.to(plan.device)].cpu()
    column = torch.multinomial(share, 1, generator=generator)[:, 0]
    c, d = problem.source.of(row), problem.target.of(column)
    out = torch.addmm(c.square().sum(1)[:, None] + d.square().sum(1), c, d.T, alpha=-2)
    return out.mul_(1 / count).clamp_(min=0)


def _exact_cost(problem: Problem, plan: Tensor) -> float:
    """The objective of a plan: the sum of |C_ik - D_jl|^2 T_ij T_kl."""
    c, d = problem.source.whole(), problem.target.whole()
    linear = (c.square() @ plan.sum(1))[:, None] + d.square() @ plan.sum(0) - 2 * (c @ plan @ d)
    return float((linear * plan).sum(dtype=torch.float64))


def critical_epsilon(problem: Problem, seed: int) -> float:
    """The temperature above which the independent plan is the stable solution; one, if none is.

    Near it, T = p q (1 + z), so that z -> 4 C z D / epsilon, with C and D centred by their masses.
    """
    generator = seeded(seed)
    top = []
    for side, mass in ((problem.source, problem.p), (problem.target, problem.q)):
        count = min(_SAMPLED, mass.numel())
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
    return critical if critical > problem.coldest else 1.0


def _coarse_cost(problem: Problem, seed: int) -> Tensor:
    """The linear cost [N, K] of the plan between some points of either side."""
    generator = seeded(seed)
    anchors, blocks, columns = [], [], []
    for side, mass in ((problem.source, problem.p), (problem.target, problem.q)):
        count = min(_COARSE, mass.numel())
        anchors.append(torch.multinomial(mass.cpu(), count, generator=generator))
        columns.append(side.of(anchors[-1]))
        block = columns[-1][anchors[-1]]
        blocks.append((block + block.mT) / 2)
    epsilon = max(problem.epsilon / critical_epsilon(problem, seed), _COARSE_EPSILON)
    options = SolverOptions(epsilon, tol=_COARSE_TOL, seed=seed, progress=False)
    first, second = blocks
    task = read_task(first, second, MatrixCost(_COARSE), None, None, None, None, options)
    table = task.solve(is_start=True).dense().to(blocks[0])
    c, d = columns
    linear = (c.square() @ table.sum(1))[:, None] + d.square() @ table.sum(0)
    return linear - 2 * (c @ table @ d.mT)
