"""Scores of a plan, log2 T: products of short vectors, a table, or a few pairs.

Sums over a plan of short vectors are passes of :mod:`~jsem_pyg.kernels.sinkhorn`. Other quantities
come from blocks of rows of log2 T, of at most :data:`BLOCK` numbers.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...kernels.sinkhorn import SinkhornPass
from ...kernels.table import SINKHORN
from ...kernels.torch_func import without_autocast

BLOCK = 1 << 20  # numbers: what a core's caches hold


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


class SparseScores(NamedTuple):
    """log2 T of a few pairs, sorted by rows, the largest first; no other pair has mass."""

    row: Tensor  # [M] int64
    column: Tensor  # [M] int64
    mass: Tensor  # [M] log2 of the mass of each pair
    shape: tuple[int, int]  # N and K

    @property
    def like(self) -> Tensor:
        """A tensor of the type and on the device of the scores."""
        return self.mass

    def rows(self, start: int, stop: int) -> Tensor:
        """Compute the rows from `start` up to `stop`: [R, K]."""
        block = self.mass.new_full((stop - start, self.shape[1]), -torch.inf)
        first, last = torch.searchsorted(self.row, self.row.new_tensor([start, stop])).tolist()
        inside = slice(first, last)
        block[self.row[inside] - start, self.column[inside]] = self.mass[inside]
        return block

    def largest(self, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Find the k largest of every row: rows, columns and masses [M]."""
        count = torch.bincount(self.row, minlength=self.shape[0])
        place = torch.arange(self.row.numel(), device=self.row.device)
        chosen = place - (count.cumsum(0) - count)[self.row] < k
        return self.row[chosen], self.column[chosen], self.mass[chosen]

    def best(self) -> Tensor:
        """Find the largest of every row: [N], -1 for a row without mass."""
        row, column, _ = self.largest(1)
        return self.row.new_full((self.shape[0],), -1).index_copy(0, row, column)

    def transposed(self) -> "SparseScores":
        """Turn the plan round, from the target to the source."""
        order = self.mass.argsort(descending=True, stable=True)
        order = order[self.column[order].argsort(stable=True)]
        turned = self.column[order], self.row[order], self.mass[order]
        return SparseScores(*turned, self.shape[::-1])

    def column_sums(self) -> Tensor:
        """Compute T^T 1 [K], in float64."""
        sums = self.mass.new_zeros(self.shape[1], dtype=torch.float64)
        return sums.index_add(0, self.column, self.mass.double().exp2())

    def product(self, y: Tensor) -> Tensor:
        """Compute T y [N, D] of y [K, D]."""
        sent = self.mass.exp2().to(y)[:, None] * y[self.column]
        return y.new_zeros(self.shape[0], y.size(1)).index_add(0, self.row, sent)

    def entropies(self) -> Tensor:
        """Compute the entropies [N] of rows, zero without mass."""
        terms = torch.special.entr(self.mass.exp2())
        return self.mass.new_zeros(self.shape[0]).index_add(0, self.row, terms)

    def shares(self, dtype: torch.dtype) -> "SparseScores":
        """Scale rows to sums of one, in a type."""
        total = self.transposed().column_sums().log2()
        return self._replace(mass=(self.mass - total[self.row]).to(dtype))


# log2 of a plan [N, K]; minus infinity for pairs without mass.
Scores = FactoredScores | DenseScores | SparseScores


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
