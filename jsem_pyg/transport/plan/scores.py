"""Scores of a plan, log2 T: products of short vectors, a table, or one partner for each node.

Sums over a plan of short vectors are passes of :mod:`~jsem_pyg.kernels.sinkhorn`. Other quantities
come from blocks of rows of log2 T, of at most :data:`BLOCK` numbers.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ..._precision import without_autocast
from ...kernels.sinkhorn import SinkhornPass
from ...kernels.table import SINKHORN

BLOCK = 1 << 20  # numbers: what a core's caches hold


class Scores(Protocol):
    """log2 of a plan [N, K]; minus infinity for pairs without mass."""

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""

    @property
    def like(self) -> Tensor:
        """A tensor of the type and on the device of the scores."""

    def rows(self, start: int, stop: int) -> Tensor:
        """Compute the rows from `start` up to `stop`: [R, K]."""

    def transposed(self) -> "Scores":
        """Turn the plan round, from the target to the source."""

    def column_sums(self) -> Tensor:
        """Compute T^T 1 [K], in float64."""

    def product(self, y: Tensor) -> Tensor:
        """Compute T y [N, D] of y [K, D], in the longer of both types."""

    def shares(self, dtype: torch.dtype) -> "Scores":
        """Scale rows to sums of one, to the last digits of a type; rows without mass stay empty."""


class FactoredScores(NamedTuple):
    """log2 T_ij = u_i . v_j + f_i + g_j; only the vectors are stored."""

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
        """Compute the rows from `start` up to `stop`: [R, K]."""
        block = torch.addmm(self.g, self.u[start:stop], self.v.T)
        return block.add_(self.f[start:stop, None])

    def transposed(self) -> "FactoredScores":
        """Turn the plan round, from the target to the source."""
        return FactoredScores(self.v, self.u, self.g, self.f)

    def column_sums(self) -> Tensor:
        """Compute T^T 1 [K], in float64."""
        return self.transposed().averages(self.u[:, :0])[1]

    def product(self, y: Tensor) -> Tensor:
        """Compute T y [N, D] of y [K, D]."""
        scores = self._in(torch.promote_types(self.u.dtype, y.dtype))
        means, mass = scores.averages(y.to(scores.u))
        return (mass[:, None] * means).to(y)

    def shares(self, dtype: torch.dtype) -> "FactoredScores":
        """Scale rows to sums of one, in a type."""
        scores = self._in(dtype)
        return scores._replace(f=scores._pass(scores.v[:, :0]).f)

    def averages(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the mean [N, D] of y [K, D] over the row of each point, and its mass [N]."""
        done = self._pass(y)
        has_mass = self.f > -torch.inf
        apart = torch.where(has_mass, self.f.double() - done.f.double(), -torch.inf)
        return done.average.double(), apart.exp2()

    def _in(self, dtype: torch.dtype) -> "FactoredScores":
        return FactoredScores(*(each.to(dtype) for each in self))

    def _pass(self, y: Tensor) -> SinkhornPass:
        """Take a pass over rows with a mass of one each."""
        one_pass = SINKHORN.find("auto", self.u.device).sinkhorn_pass
        log2_one = torch.where(self.f > -torch.inf, 0, self.f)
        done: SinkhornPass = one_pass(self.u, self.v, self.g, log2_one, y)
        return done


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
        """Compute the rows from `start` up to `stop`: [R, K]."""
        return self.table[start:stop]

    def transposed(self) -> "DenseScores":
        """Turn the plan round, from the target to the source."""
        return DenseScores(self.table.T)

    def column_sums(self) -> Tensor:
        """Compute T^T 1 [K], in float64."""
        return self.table.exp2().sum(0, dtype=torch.float64)

    def product(self, y: Tensor) -> Tensor:
        """Compute T y [N, D] of y [K, D]."""
        return self.table.exp2().to(y) @ y

    def shares(self, dtype: torch.dtype) -> "DenseScores":
        """Scale rows to sums of one, in a type."""
        table = self.table.to(dtype)
        total = torch.logsumexp(table * math.log(2), 1, keepdim=True) / math.log(2)
        return DenseScores(torch.where(total > -torch.inf, table - total, -torch.inf))


class AssignmentScores(NamedTuple):
    """log2 T of a plan that sends all mass of a source point to one partner of its own."""

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
        """Compute the rows from `start` up to `stop`: [R, K]."""
        partner = self.partner[start:stop]
        block = self.mass.new_full((partner.numel(), self.num_targets), -torch.inf)
        row = torch.nonzero(partner >= 0)[:, 0]
        block[row, partner[row]] = self.mass[start:stop][row]
        return block

    def pairs(self) -> tuple[Tensor, Tensor]:
        """Find the nodes with mass [M] and their partners [M]."""
        row = torch.nonzero(self.partner >= 0)[:, 0]
        return row, self.partner[row]

    def transposed(self) -> "AssignmentScores":
        """Turn the plan round, from the target to the source."""
        source, target = self.pairs()
        partner = self.partner.new_full((self.num_targets,), -1)
        partner[target] = source
        mass = self.mass.new_full((self.num_targets,), -torch.inf)
        mass[target] = self.mass[source]
        return AssignmentScores(partner, mass, self.partner.numel())

    def column_sums(self) -> Tensor:
        """Compute T^T 1 [K], in float64."""
        return self.transposed().mass.double().exp2()

    def product(self, y: Tensor) -> Tensor:
        """Compute T y [N, D] of y [K, D]."""
        source, target = self.pairs()
        sent = self.mass[source].exp2().to(y)[:, None] * y[target]
        return y.new_zeros(self.shape[0], y.size(1)).index_copy_(0, source, sent)

    def shares(self, dtype: torch.dtype) -> "AssignmentScores":
        """Scale rows to sums of one, in a type."""
        return self._replace(mass=torch.where(self.partner >= 0, 0, self.mass).to(dtype))


def row_sums(scores: Scores) -> Tensor:
    """Compute T 1 [N], in float64."""
    return scores.transposed().column_sums()


def row_blocks(scores: Scores) -> Iterator[tuple[slice, Tensor]]:
    """Yield blocks of rows of log2 T, with the places of their rows."""
    num_rows, num_columns = scores.shape
    step = max(1, BLOCK // max(1, num_columns))
    for start in range(0, num_rows, step):
        stop = min(num_rows, start + step)
        yield slice(start, stop), scores.rows(start, stop)


def average(scores: Scores, y: Tensor) -> Tensor:
    """Compute T y [N, D] of y [K, D], weighted by mass; differentiable in y."""
    return _Average.apply(y, scores)


class _Average(torch.autograd.Function):
    """T y, and T^T of its gradient."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, scores: Scores) -> Tensor:
        ctx.scores = scores
        return scores.product(y)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return average(ctx.scores.transposed(), grad), None
