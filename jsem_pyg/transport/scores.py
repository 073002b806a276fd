"""Where the entries of a plan come from: products of short vectors, or a table.

A plan asks for blocks of rows of log2 T. No block is larger than :data:`BLOCK` numbers, whatever
the size of the plan.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

BLOCK = 1 << 22  # numbers


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
        """Those of the plan from the target to the source."""


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

    def rows(self, start: int, stop: int) -> Tensor:
        """The rows from `start` up to `stop`: [R, K]."""
        return self.u[start:stop] @ self.v.T + self.g + self.f[start:stop, None]

    def transposed(self) -> "FactoredScores":
        """Those of the plan from the target to the source."""
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
        """Those of the plan from the target to the source."""
        return DenseScores(self.table.T)


def row_blocks(scores: Scores) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of rows of log2 T, and which rows they are."""
    num_rows, num_columns = scores.shape
    step = max(1, BLOCK // max(1, num_columns))
    for start in range(0, num_rows, step):
        stop = min(num_rows, start + step)
        yield slice(start, stop), scores.rows(start, stop)


def column_sums(scores: Scores) -> Tensor:
    """T^T 1 [K], in float64."""
    total = scores.like.new_zeros(scores.shape[1], dtype=torch.float64)
    for _, block in row_blocks(scores):
        total += block.exp2().sum(0, dtype=torch.float64)
    return total


def row_sums(scores: Scores) -> Tensor:
    """T 1 [N], in float64."""
    sums = [block.exp2().sum(1, dtype=torch.float64) for _, block in row_blocks(scores)]
    return torch.cat(sums) if sums else scores.like.new_zeros(0, dtype=torch.float64)


class _Average(torch.autograd.Function):
    """T y, and T^T of its gradient."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, scores: Scores) -> Tensor:
        ctx.scores = scores
        blocks = [(block.exp2().to(y) @ y) for _, block in row_blocks(scores)]
        return torch.cat(blocks) if blocks else y.new_zeros(0, y.size(1))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return average(ctx.scores.transposed(), grad), None


def average(scores: Scores, y: Tensor) -> Tensor:
    """T y [N, D] of y [K, D], weighted by mass; differentiable in y."""
    return _Average.apply(y, scores)
