"""The halo: rows of other processes that the columns of this one's slots name.

Three maps between the processes, each with the next one's help its own derivative:

- `spread` brings numbers of nodes to everybody whose columns name them;
- `_Gather`, its transpose, brings numbers of halo nodes home, and adds them up there;
- `mirror` gives every slot (i, j) the value of (j, i); it is symmetric.
"""

from typing import Any

import torch
from torch import Tensor

from .ranks import Pending, Ranks


class Halo:
    """Who sends which rows to whom.

    Args:
        ranks: the processes.
        num_rows: n, the rows of this process.
        outside: [h] ascending places of the halo nodes in the order of the partition.
        begin: [P + 1] the places where the rows of each process begin.
        row: [nx] the row of every crossing slot, ascending by row, then column.
        col: [nx] its column, as a place in `outside`.
    """

    def __init__(
        self,
        ranks: Ranks,
        num_rows: int,
        outside: Tensor,
        begin: Tensor,
        row: Tensor,
        col: Tensor,
    ) -> None:
        self.ranks, self.num_rows, self.size = ranks, num_rows, outside.numel()
        owner = torch.searchsorted(begin, outside, right=True) - 1
        self.receive = torch.bincount(owner, minlength=ranks.size).tolist()
        # A graph is undirected: who has a neighbour here is who wants its row.
        owner_of_slot = owner[col]
        wanted = torch.unique(owner_of_slot * max(num_rows, 1) + row)
        self.send = torch.bincount(wanted // max(num_rows, 1), minlength=ranks.size).tolist()
        self.send_row = wanted % max(num_rows, 1)
        # Slots are sent in the order in which the other side counts its own: by its rows first.
        self.crossing = torch.bincount(owner_of_slot, minlength=ranks.size).tolist()
        self._swap_send = (col * max(num_rows, 1) + row).argsort()
        self._swap_receive = owner_of_slot.argsort(stable=True)
        self.rows = torch.unique(row)  # those with a neighbour elsewhere

    def start_fetch(self, values: Tensor) -> Pending:
        """Send [n, ...] to whom it concerns; `wait` returns the halo's [h, ...]."""
        rows = values.index_select(0, self.send_row)
        return self.ranks.exchange(rows, self.send, self.receive)

    def collect(self, values: Tensor) -> Tensor:
        """[h, ...] numbers of halo nodes -> the sums [n, ...] of what all hold of each node."""
        found = self.ranks.exchange(values.contiguous(), self.receive, self.send).wait()
        return values.new_zeros(self.num_rows, *values.shape[1:]).index_add(0, self.send_row, found)

    def spread(self, values: Tensor) -> Tensor:
        """[n, ...] -> [n + h, ...]: the halo's behind; differentiable."""
        return _Spread.apply(values, self)

    def mirror(self, values: Tensor) -> Tensor:
        """[nx] values in the crossing slots (i, j) -> those of (j, i); differentiable."""
        return _Swap.apply(values, self)

    def swap(self, values: Tensor) -> Tensor:
        """[nx] values in the crossing slots -> what the other sides have in theirs."""
        sent = values.index_select(0, self._swap_send)
        found = self.ranks.exchange(sent, self.crossing, self.crossing).wait()
        return torch.empty_like(values).scatter_(0, self._swap_receive, found)


class _Spread(torch.autograd.Function):
    """[n, ...] -> [n + h, ...]: with the rows of the halo behind them."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, halo: Halo) -> Tensor:
        ctx.halo = halo
        return torch.cat([values, halo.start_fetch(values).wait()])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Gather.apply(grad, ctx.halo), None


class _Gather(torch.autograd.Function):
    """[n + h, ...] -> [n, ...]: the transpose of :class:`_Spread`."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, halo: Halo) -> Tensor:
        ctx.halo = halo
        return values[: halo.num_rows] + halo.collect(values[halo.num_rows :])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Spread.apply(grad, ctx.halo), None


class _Swap(torch.autograd.Function):
    """[nx] -> [nx]: see :meth:`Halo.swap`, whose transpose it is itself."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, halo: Halo) -> Tensor:
        ctx.halo = halo
        return halo.swap(values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Swap.apply(grad, ctx.halo), None


def sum_over_ranks(values: Tensor, ranks: Ranks) -> Tensor:
    """The sum of a tensor of every process, where the loss is the sum of all losses made of it."""
    return _Total.apply(values, ranks)


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return ranks.total(values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Total.apply(grad, ctx.ranks), None
