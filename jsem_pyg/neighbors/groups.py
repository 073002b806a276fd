"""Sorts the points of a mini-batch by graph, and lays small graphs side by side."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._checks import check_labels
from .._groups import group_order, group_starts

# Up to this many points a graph is searched by all its pairs, many graphs at once. Measured on one
# core with 64 features: with so many points it takes as long as an index does (0.8 ms and 0.9 ms).
SMALL = 128

# How many pairs of points are looked at together.
_CHUNK_PAIRS = 1 << 22


class Groups(NamedTuple):
    """The graphs of N points, none of them empty."""

    label: Tensor  # [N] the graph of each point, numbered from zero
    order: Tensor  # [N] the points, graph by graph, in each graph as they came
    start: Tensor  # [G + 1] where each graph begins in `order`

    @property
    def size(self) -> Tensor:
        """The number of points [G] of each graph."""
        return self.start.diff()

    def nodes(self, graph: int) -> Tensor:
        """Return the points of one graph, ascending."""
        return self.order[self.start[graph] : self.start[graph + 1]]

    def median(self, value: Tensor, among: Tensor) -> Tensor:
        """Return the lower median [G] of `value` [N] in each graph, of the points in `among` [N].

        NaN if a graph has no such point.
        """
        value, label = value[among], self.label[among]
        value = value[group_order(value, label)]
        start = group_starts(label, self.size.numel())
        count = start.diff()
        middle = start[:-1] + (count - 1).clamp(min=0) // 2
        found = value.new_full((count.numel(),), torch.nan)
        found[count > 0] = value[middle[count > 0]]
        return found

    def large(self) -> list[int]:
        """List the graphs that are too large for :meth:`small`."""
        return (self.size > SMALL).nonzero()[:, 0].tolist()

    def small(self, wanted: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the small graphs (`wanted` [G]), many of about the same size at a time.

        They come as the points [B, n] of B graphs, ascending in each, and whether there is a point
        [B, n]: behind the end of a graph some point is repeated.
        """
        chosen = self.size <= SMALL if wanted is None else (self.size <= SMALL) & wanted
        graph = chosen.nonzero()[:, 0]
        graph = graph[self.size[graph].argsort()]
        begin = 0
        while begin < graph.numel():
            # Ascending; as many as fit the chunk, padded to the largest of them.
            size = self.size[graph[begin:]]
            padded = torch.arange(1, size.numel() + 1) * size**2
            end = begin + max(1, int((padded <= _CHUNK_PAIRS).sum()))
            batch, begin = graph[begin:end], end
            slot = torch.arange(int(self.size[batch[-1]]))
            valid = slot < self.size[batch][:, None]
            place = (self.start[batch][:, None] + slot).clamp(max=self.order.numel() - 1)
            yield self.order[place], valid


def one_group(num_points: int) -> Groups:
    """Put all points into one graph."""
    label = torch.zeros(1, dtype=torch.int64).expand(num_points)
    return Groups(label, torch.arange(num_points), torch.tensor([0, num_points]))


def group_points(batch: Any, num_points: int) -> Groups:
    """Read the graphs of a PyG `batch` vector [N], in the order of their numbers there."""
    check_labels("batch", batch, num_points)
    number, label = batch.cpu().unique(return_inverse=True)
    return Groups(label, label.argsort(stable=True), group_starts(label, number.numel()))
