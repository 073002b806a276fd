"""When a block is small enough: a number of blocks, or bytes."""

from typing import Protocol

import numpy as np

from ..graph import GraphStructure
from ..kernels.ordering import scipy_indices
from .budget import working_set
from .splitters import Array, Block


class Goal(Protocol):
    """What is asked of the blocks."""

    num_parts: float  # never more than so many

    def wants(self, nodes: Array) -> bool:
        """Whether these nodes should be split. A ValueError if they have to, but cannot be."""

    def share(self, block: Block) -> float:
        """Which part of a block's cost its first half gets."""


class PartCount:
    """So many blocks of equal cost.

    Args:
        num_parts: P.
        cost: of the whole graph.
    """

    def __init__(self, num_parts: int, cost: float) -> None:
        self.num_parts: float = num_parts
        self._cost_of_part = cost / num_parts

    def wants(self, nodes: Array) -> bool:
        """See :class:`Goal`: if there is more than one."""
        return nodes.size > 1

    def share(self, block: Block) -> float:
        """See :class:`Goal`: what leads to equal parts, where their number is no power of two."""
        parts = max(2, round(float(block.cost.sum()) / self._cost_of_part))
        return (parts // 2) / parts


class ByteLimit:
    """Blocks whose working set keeps within a limit.

    Args:
        max_bytes: the limit.
        structure: the graph.
        channels: the columns of a tile.
        itemsize: bytes of a number.
    """

    num_parts = float("inf")

    def __init__(
        self, max_bytes: int, structure: GraphStructure, channels: int, itemsize: int
    ) -> None:
        self.max_bytes, self.channels, self.itemsize = max_bytes, channels, itemsize
        self._col, self._rowptr = scipy_indices(structure.csr)
        self._is_outside = np.zeros(structure.num_nodes, bool)

    def wants(self, nodes: Array) -> bool:
        """See :class:`Goal`: if they do not fit."""
        needed = self._working_set(nodes)
        if needed > self.max_bytes and nodes.size <= 1:
            raise ValueError(
                "Expected 'max_bytes' to hold every single row with its neighbours (got "
                f"{self.max_bytes}, but node {int(nodes[0])} takes {needed})."
            )
        return needed > self.max_bytes

    def share(self, block: Block) -> float:
        """See :class:`Goal`: halves."""
        return 0.5

    def _working_set(self, nodes: Array) -> int:
        start, stop = self._rowptr[nodes], self._rowptr[nodes + 1]
        slots = _ranges(start, stop)
        outside = self._is_outside
        outside[self._col[slots]] = True
        outside[nodes] = False
        halo = int(np.count_nonzero(outside))
        outside[self._col[slots]] = False
        return working_set(nodes.size, halo, slots.size, self.channels, self.itemsize)


def _ranges(start: Array, stop: Array) -> Array:
    """The numbers from each start up to each stop, one range after another."""
    count = (stop - start).astype(np.int64)
    skipped = start - (np.cumsum(count) - count)
    return np.repeat(skipped, count) + np.arange(count.sum())
