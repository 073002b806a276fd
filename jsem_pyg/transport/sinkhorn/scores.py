"""Scores of a plan, log2 T: products of short vectors, a table, or one partner for each node.

Sums over a plan of short vectors are passes of :mod:`~jsem_pyg.kernels.sinkhorn`. All other
quantities come from blocks of rows of log2 T, none of which is larger than :data:`BLOCK`
numbers, whatever the size of the plan.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ..._precision import power_of_two, without_autocast
from ...kernels.sinkhorn import SinkhornPass
from ...kernels.table import SINKHORN

BLOCK = 1 << 20  # numbers: what a core's caches hold


class Scores(Protocol):
    """log2 of a plan [N, K]; minus infinity where there is no mass."""

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""

    @property
    def like(self) -> Tensor:
        """A tensor of the type and on the device of the scores."""

    def rows(self, start: int, stop: int) -> Tensor:
        """The rows from `start` up to `stop`: [R, K]."""

    def transposed(self) -> "Scores":
        """The scores of the plan from the target to the source."""


class FactoredScores(NamedTuple):
    """log2 T_ij = u_i . v_j + f_i + g_j, of which only the vectors are stored."""

    u: Tensor  # [N, R]
    v: Tensor  # [K, R]
    f: Tensor  # [N]
    g: Tensor  # [K]

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""
        return self.u.size(0), self.v.size(0)

    @property
    def like(self) -> Tensor:
        """A tensor of the type and on the device of the scores."""
        return self.u

    @without_autocast
    def rows(self, start: int, stop: int) -> Tensor:
        """The rows from `start` up to `stop`: [R, K]."""
        block = torch.addmm(self.g, self.u[start:stop], self.v.T)
        return block.add_(self.f[start:stop, None])

    def transposed(self) -> "FactoredScores":
        """The scores of the plan from the target to the source."""
        return FactoredScores(self.v, self.u, self.g, self.f)


class DenseScores(NamedTuple):
    """log2 T as a table [N, K]."""

    table: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""
        return self.table.size(0), self.table.size(1)

    @property
    def like(self) -> Tensor:
        """A tensor of the type and on the device of the scores."""
        return self.table

    def rows(self, start: int, stop: int) -> Tensor:
        """The rows from `start` up to `stop`: [R, K]."""
        return self.table[start:stop]

    def transposed(self) -> "DenseScores":
        """The scores of the plan from the target to the source."""
        return DenseScores(self.table.T)


class AssignmentScores(NamedTuple):
    """log2 T of a plan with all mass of a source point at its partner, which has no other."""

    partner: Tensor  # [N] int64 the target point of each source point; -1: it has no mass
    mass: Tensor  # [N] log2 of the mass that goes there
    num_targets: int  # K

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""
        return self.partner.numel(), self.num_targets

    @property
    def like(self) -> Tensor:
        """A tensor of the type and on the device of the scores."""
        return self.mass

    def rows(self, start: int, stop: int) -> Tensor:
        """The rows from `start` up to `stop`: [R, K]."""
        partner = self.partner[start:stop]
        block = self.mass.new_full((partner.numel(), self.num_targets), -torch.inf)
        row = torch.nonzero(partner >= 0)[:, 0]
        block[row, partner[row]] = self.mass[start:stop][row]
        return block

    def pairs(self) -> tuple[Tensor, Tensor]:
        """The nodes with mass and their partners: [M] each."""
        row = torch.nonzero(self.partner >= 0)[:, 0]
        return row, self.partner[row]

    def transposed(self) -> "AssignmentScores":
        """The scores of the plan from the target to the source."""
        source, target = self.pairs()
        partner = self.partner.new_full((self.num_targets,), -1)
        partner[target] = source
        mass = self.mass.new_full((self.num_targets,), -torch.inf)
        mass[target] = self.mass[source]
        return AssignmentScores(partner, mass, self.partner.numel())


def scaled(scores: Any, factor: float) -> Any:
    """The scores of a plan times a number."""
    log2 = math.log2(factor)
    if isinstance(scores, FactoredScores):
        return scores._replace(f=scores.f + log2)
    if isinstance(scores, AssignmentScores):
        return scores._replace(mass=scores.mass + log2)
    return DenseScores(scores.table + log2)


def row_blocks(scores: Scores) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of rows of log2 T, and which rows they are."""
    num_rows, num_columns = scores.shape
    step = max(1, BLOCK // max(1, num_columns))
    for start in range(0, num_rows, step):
        stop = min(num_rows, start + step)
        yield slice(start, stop), scores.rows(start, stop)


def column_sums(scores: Scores) -> Tensor:
    """T^T 1 [K], in float64."""
    if isinstance(scores, FactoredScores):
        return _pass(scores, scores.f, scores.v[:, :0], 0.0).column_mass
    if isinstance(scores, AssignmentScores):
        return row_sums(scores.transposed())
    total = scores.like.new_zeros(scores.shape[1], dtype=torch.float64)
    for _, block in row_blocks(scores):
        total += block.exp2().sum(0, dtype=torch.float64)
    return total


def row_sums(scores: Scores) -> Tensor:
    """T 1 [N], in float64."""
    if isinstance(scores, FactoredScores):
        return column_sums(scores.transposed())
    if isinstance(scores, AssignmentScores):
        return scores.mass.double().exp2()
    sums = [block.exp2().sum(1, dtype=torch.float64) for _, block in row_blocks(scores)]
    return torch.cat(sums) if sums else scores.like.new_zeros(0, dtype=torch.float64)


class PlanSums(NamedTuple):
    """Sums over all of a plan, float64."""

    r: Tensor  # [N] the masses that leave
    c: Tensor  # [K] the masses that arrive
    log2: Tensor  # sum_ij T_ij log2 T_ij


def plan_sums(scores: FactoredScores) -> PlanSums:
    """The marginals of a plan and its entropy, by one pass."""
    rank = scores.v.size(1)
    signal = torch.cat([scores.v, torch.ones_like(scores.g[:, None])], 1)
    done = _pass(scores, scores.f, signal, 0.0)
    sent = done.average.double()
    r, c = sent[:, rank], done.column_mass
    log2 = (scores.u.double() * sent[:, :rank]).sum()
    for mass, potential in ((r, scores.f), (c, scores.g)):
        log2 = log2 + mass @ torch.where(potential > -torch.inf, potential, 0).double()
    return PlanSums(r, c, log2)


def row_potentials(scores: FactoredScores, rows: Tensor) -> Tensor:
    """Potentials [N] float64 that the chosen rows would have with a mass of one; zero elsewhere."""
    found = torch.zeros_like(scores.f, dtype=torch.float64)
    some = scores._replace(u=scores.u[rows], f=torch.zeros_like(scores.f[rows]))
    found[rows] = shares(some, torch.float64).f
    return found


def shares(scores: Any, dtype: torch.dtype) -> Any:
    """The plan with rows of sum one, diag(1 / T 1) T; without mass where there was none.

    They have the sum one to the last digits of `dtype`, the type of what is returned.
    """
    if isinstance(scores, FactoredScores):
        scores = FactoredScores(*(each.to(dtype) for each in scores))
        log2_one = torch.where(scores.f > -torch.inf, 0, scores.f)
        return scores._replace(f=_pass(scores, log2_one, scores.v[:, :0], 1.0).f)
    if isinstance(scores, AssignmentScores):
        return scores._replace(mass=torch.where(scores.partner >= 0, 0, scores.mass).to(dtype))
    table = torch.empty(scores.shape, dtype=dtype, device=scores.like.device)
    for rows, block in row_blocks(scores):
        table[rows] = _with_sum_one(block.to(dtype))
    return DenseScores(table)


def _with_sum_one(block: Tensor) -> Tensor:
    total = torch.logsumexp(block * math.log(2), 1, keepdim=True) / math.log(2)
    return torch.where(total > -torch.inf, block - total, -torch.inf)


def _pass(scores: FactoredScores, log2_p: Tensor, y: Tensor, damping: float) -> SinkhornPass:
    one_pass = SINKHORN.find("auto", scores.u.device).sinkhorn_pass
    return one_pass(scores.u, scores.v, scores.g, log2_p, y, damping)


class _Average(torch.autograd.Function):
    """T y, and T^T of its gradient."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, scores: Scores, is_narrow: bool) -> Tensor:
        ctx.scores, ctx.is_narrow = scores, is_narrow
        if isinstance(scores, FactoredScores):
            return _factored_average(scores, y, is_narrow)
        if isinstance(scores, AssignmentScores):
            source, target = scores.pairs()
            sent = scores.mass[source].exp2().to(y)[:, None] * y[target]
            return y.new_zeros(scores.shape[0], y.size(1)).index_copy_(0, source, sent)
        blocks = [(block.exp2().to(y) @ y) for _, block in row_blocks(scores)]
        return torch.cat(blocks) if blocks else y.new_zeros(0, y.size(1))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return average(ctx.scores.transposed(), grad, ctx.is_narrow), None, None


def _factored_average(scores: FactoredScores, y: Tensor, is_narrow: bool) -> Tensor:
    """T y, computed in the longer of both types: digits of `y` are not lost."""
    if is_narrow:
        unit = power_of_two(y.abs().amax(0).clamp(min=torch.finfo(y.dtype).tiny))
        return _pass(scores, scores.f, (y / unit).to(scores.u), 0.0).average.to(y) * unit
    dtype = torch.promote_types(scores.u.dtype, y.dtype)
    scores = FactoredScores(*(each.to(dtype) for each in scores))
    return _pass(scores, scores.f, y.to(dtype), 0.0).average.to(y)


def average(scores: Scores, y: Tensor, is_narrow: bool = False) -> Tensor:
    """T y [N, D] of y [K, D], weighted by mass; differentiable in y.

    With `is_narrow`, sums over a plan of short vectors are in the type of its scores, whatever that
    of y, of which no column is too large or too small for it.
    """
    return _Average.apply(y, scores, is_narrow)
