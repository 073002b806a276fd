"""The tree of splits: which block is split next, and when it is enough."""

import heapq
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .goals import Goal
from .intensity import intensity
from .splitters import Block, Splitter

Array = NDArray[Any]


@dataclass(eq=False)
class Branch:
    """A block, or what became of it: two halves."""

    nodes: Array  # [n] of the whole graph
    block: Block
    halves: "tuple[Branch, Branch] | tuple[()]" = ()

    def split(self, splitter: Splitter, share: float) -> "tuple[Branch, Branch]":
        """Split this block in two; its own pattern is of no use any more."""
        first = splitter(self.block, share)
        left, right = (
            Branch(self.nodes[half], self.block.restrict(np.flatnonzero(half)))
            for half in (first, ~first)
        )
        self.halves, self.block = (left, right), self.block.restrict(np.empty(0, np.int64))
        return left, right

    def leaves(self) -> "list[Branch]":
        """The blocks that were not split, from first to last."""
        found: list[Branch] = []
        waiting = [self]
        while waiting:
            branch = waiting.pop()
            waiting += reversed(branch.halves)
            if not branch.halves:
                found.append(branch)
        return found

    def splits(self) -> Array:
        """[S, 3] of which leaves every split is made; see :class:`.Partition`."""
        rows: list[tuple[int, int, int]] = []
        waiting = [(self, 0)]
        while waiting:
            branch, first = waiting.pop()
            if branch.halves:
                left, right = branch.halves
                middle = first + len(left.leaves())
                rows.append((first, middle, middle + len(right.leaves())))
                waiting += [(right, middle), (left, first)]
        return np.array(rows, np.int64).reshape(-1, 3)


def grow(whole: Block, splitter: Splitter, goal: Goal) -> Branch:
    """Split the block of the highest intensity again and again, until the goal is reached."""
    root, serial = Branch(np.arange(whole.cost.size), whole), count()
    waiting = [(0.0, next(serial), root)] if goal.wants(root.nodes) else []
    num_leaves = 1
    while waiting and num_leaves < goal.num_parts:
        branch = heapq.heappop(waiting)[2]
        num_leaves += 1
        for half in branch.split(splitter, goal.share(branch.block)):
            if goal.wants(half.nodes):
                heapq.heappush(waiting, (-intensity(half.block.cost), next(serial), half))
    return root
