"""What every splitter sees of a block, and what it answers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[Any]


class Block(NamedTuple):
    """Nodes that may be split, and what holds them together."""

    adjacency: csr_array  # [n, n] the edges among them, both directions of each
    cost: Array  # [n] float64, what each row costs
    curve: Array | None  # [n] how far along a curve through all nodes they lie, if there is one

    def restrict(self, nodes: Array) -> "Block":
        """Some of these nodes, by their numbers in this block."""
        curve = None if self.curve is None else self.curve[nodes]
        return Block(self.adjacency[nodes][:, nodes], self.cost[nodes], curve)


# (block, share) -> [n] whether a node belongs to the first half, which gets that share of the cost.
Splitter = Callable[[Block, float], Array]


def cut(order: Array, cost: Array, share: float) -> Array:
    """Mark the first of an order, up to a share of all cost, and at least one on each side."""
    passed = np.cumsum(cost[order])
    count = int(np.searchsorted(passed, share * passed[-1])) + 1
    # The node in which the share ends belongs to the side on which more of it lies.
    before = passed[count - 2] if count > 1 else 0.0
    if share * passed[-1] - before < passed[count - 1] - share * passed[-1]:
        count -= 1
    first = np.zeros(order.size, bool)
    first[order[: min(max(count, 1), order.size - 1)]] = True
    return first
