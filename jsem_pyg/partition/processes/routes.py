"""The values that each process sends and receives, differentiable: fetching, and its transpose."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .ranks import Ranks


class Routes:
    """The rows that travel between the processes, the same at every call.

    Args:
        ranks: the process group.
        num_rows: n, the rows of this process.
        send_row: [s] the rows that go to the other ranks in turn.
        send: how many of them go to each rank.
        receive: how many rows come from each rank, h in all.
    """

    def __init__(
        self, ranks: Ranks, num_rows: int, send_row: Tensor, send: list[int], receive: list[int]
    ) -> None:
        self.ranks, self.num_rows, self.size = ranks, num_rows, sum(receive)
        self.send_row, self.send, self.receive = send_row, send, receive

    @classmethod
    def to_places(cls, ranks: Ranks, begin: Tensor, places: Tensor) -> "Routes":
        """Make the routes that bring rows of ascending places [h]; every process names its own."""
        receive = torch.bincount(owner_of(places, begin), minlength=ranks.size)
        one_each = [1] * ranks.size
        send = ranks.exchange(receive, one_each, one_each)
        wanted = ranks.exchange(places, receive.tolist(), send.tolist())
        low, high = begin[ranks.rank : ranks.rank + 2].tolist()
        return cls(ranks, high - low, wanted - low, send.tolist(), receive.tolist())

    def append(self, values: Tensor) -> Tensor:
        """Append the rows that arrive to own rows [n, ...]: [n + h, ...]."""
        found = self.ranks.exchange(values.index_select(0, self.send_row), self.send, self.receive)
        return torch.cat([values, found])

    def spread(self, values: Tensor) -> Tensor:
        """Do the same, differentiable."""
        return linear(values, self.append, self._take_back)

    def _take_back(self, values: Tensor) -> Tensor:
        """Sum [n + h, ...] over all copies of each row, [n, ...]: the transpose of `append`."""
        there = values[self.num_rows :].contiguous()
        found = self.ranks.exchange(there, self.receive, self.send)
        return values[: self.num_rows].index_add(0, self.send_row, found)


class Mirror:
    """Brings the values of slots (i, j) to the slots (j, i), in the process that holds row j.

    Args:
        ranks: the process group.
        row: [nnz] the row of every slot, from zero.
        place: [nnz] the place of its column; slots ascend by row, then place, within each process.
        begin: [P + 1] the places where the rows of each process begin, and N.
    """

    def __init__(self, ranks: Ranks, row: Tensor, place: Tensor, begin: Tensor) -> None:
        owner = owner_of(place, begin)
        self._ranks = ranks
        # The graph is undirected: as many come from a process as go there.
        self._count = torch.bincount(owner, minlength=ranks.size).tolist()
        self._send = (place * (int(begin[-1]) + 1) + row).argsort()  # by the rows of the others
        self._receive = owner.argsort(stable=True)

    def __call__(self, values: Tensor) -> Tensor:
        """Map [nnz] to [nnz], differentiable: the map is its own transpose."""
        return linear(values, self._swap, self._swap)

    def _swap(self, values: Tensor) -> Tensor:
        sent = values.index_select(0, self._send)
        found = self._ranks.exchange(sent, self._count, self._count)
        return torch.empty_like(values).scatter_(0, self._receive, found)


def owner_of(places: Tensor, begin: Tensor) -> Tensor:
    """Return the rank that holds each place."""
    return torch.searchsorted(begin, places, right=True) - 1


def sum_over_ranks(values: Tensor, ranks: Ranks) -> Tensor:
    """Add up a tensor over all processes; differentiable for the sum of all losses."""
    return linear(values, ranks.total, ranks.total)


def linear(
    values: Tensor, apply: Callable[[Tensor], Tensor], transpose: Callable[[Tensor], Tensor]
) -> Tensor:
    """Apply a linear map between processes, differentiable any number of times by its transpose."""
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
