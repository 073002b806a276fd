"""The rows that each process sends and receives, differentiable: fetching, and its transpose."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .ranks import Pending, Ranks


class Routes:
    """The rows that travel between the processes, the same at every call.

    Rows `send_row` [s] go to the other ranks in turn, `send` of them to each; `receive` come from
    each, h in all.
    """

    def __init__(
        self, ranks: Ranks, num_rows: int, send_row: Tensor, send: list[int], receive: list[int]
    ) -> None:
        self.ranks, self.num_rows, self.size = ranks, num_rows, sum(receive)
        self.send_row, self.send, self.receive = send_row, send, receive

    @classmethod
    def to_places(cls, ranks: Ranks, begin: Tensor, places: Tensor) -> "Routes":
        """The routes that bring rows of ascending places [h] here; every process names its own."""
        owner = torch.searchsorted(begin, places, right=True) - 1
        receive = torch.bincount(owner, minlength=ranks.size)
        one_each = [1] * ranks.size
        send = ranks.exchange(receive, one_each, one_each).wait()
        wanted = ranks.exchange(places, receive.tolist(), send.tolist()).wait()
        low, high = (int(each) for each in begin[ranks.rank : ranks.rank + 2])
        return cls(ranks, high - low, wanted - low, send.tolist(), receive.tolist())

    def start_fetch(self, *values: Tensor) -> Pending:
        """Start to send the rows of tensors [n, ...], side by side, to the ranks that need them.

        `wait` returns the rows [h, ...] that arrive.
        """
        rows = [each.index_select(0, self.send_row) for each in values]
        together = rows[0] if len(rows) == 1 else torch.cat(rows, dim=1)
        return self.ranks.exchange(together, self.send, self.receive)

    def collect(self, values: Tensor) -> Tensor:
        """[h, ...] values of the rows that arrived -> sums [n, ...] over all copies of each row."""
        found = self.ranks.exchange(values.contiguous(), self.receive, self.send).wait()
        zeros = values.new_zeros(self.num_rows, *values.shape[1:])
        return zeros.index_add(0, self.send_row, found)

    def spread(self, values: Tensor) -> Tensor:
        """[n, ...] -> [n + h, ...]: own rows, then those that arrive; differentiable."""
        return linear(values, self._append, self._take_back)

    def _append(self, values: Tensor) -> Tensor:
        return torch.cat([values, self.start_fetch(values).wait()])

    def _take_back(self, values: Tensor) -> Tensor:
        return values[: self.num_rows] + self.collect(values[self.num_rows :])


class Halo(Routes):
    """Routes of the rows of the halo, and of slots that cross to the process of their reverse.

    The halo is at ascending places `outside` [h] in the order of the partition, in which the rows
    of each process begin at `begin` [P + 1]. Crossing slots [nx] have a row and a column in
    `outside`, and ascend by both.
    """

    def __init__(
        self, ranks: Ranks, num_rows: int, outside: Tensor, begin: Tensor, row: Tensor, col: Tensor
    ) -> None:
        owner = torch.searchsorted(begin, outside, right=True) - 1
        owner_of_slot, size = owner[col], max(num_rows, 1)
        # The graph is undirected: the process that holds a neighbour of a row also needs the row.
        wanted = torch.unique(owner_of_slot * size + row)
        send, receive, crossing = (
            torch.bincount(each, minlength=ranks.size).tolist()
            for each in (wanted // size, owner, owner_of_slot)
        )
        super().__init__(ranks, num_rows, wanted % size, send, receive)
        self.rows = torch.unique(row)  # those with a neighbour elsewhere
        # Slots are sent in the order of the slots of the other side: by its rows first.
        self._crossing = crossing
        self._swap_send = (col * size + row).argsort()
        self._swap_receive = owner_of_slot.argsort(stable=True)

    def swap(self, values: Tensor) -> Tensor:
        """[nx] values in the crossing slots (i, j) -> the values of the slots (j, i) elsewhere."""
        sent = values.index_select(0, self._swap_send)
        found = self.ranks.exchange(sent, self._crossing, self._crossing).wait()
        return torch.empty_like(values).scatter_(0, self._swap_receive, found)

    def mirror(self, values: Tensor) -> Tensor:
        """The same, differentiable: the map is its own transpose."""
        return linear(values, self.swap, self.swap)


def sum_over_ranks(values: Tensor, ranks: Ranks) -> Tensor:
    """The sum of a tensor over all processes; differentiable for the sum of all losses."""
    return linear(values, ranks.total, ranks.total)


def linear(
    values: Tensor, apply: Callable[[Tensor], Tensor], transpose: Callable[[Tensor], Tensor]
) -> Tensor:
    """A linear map between processes, differentiable any number of times by its transpose."""
    out: Tensor = _Linear.apply(values, apply, transpose)
    return out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, apply: Any, transpose: Any) -> Tensor:
        ctx.maps = (transpose, apply)
        out: Tensor = apply(values)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Linear.apply(grad, *ctx.maps), None, None
