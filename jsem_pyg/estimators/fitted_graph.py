"""The neighbour graph of the points that an estimator was fitted to, and where new ones join it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from ..graph import NeighborIndex
from ..training.training_graph import TrainingGraph, prepare_graph

CHUNK = 1 << 13  # new points at once, each with the probabilities of all its neighbours


class Place(NamedTuple):
    """Where new points join the graph, each by itself."""

    neighbor: Tensor  # [M, k] nodes
    weight: Tensor  # [M, k], zeros for a point that joins nobody
    node: Tensor  # [M] the node that the point is equal to, or -1


class FittedGraph:
    """The neighbour graph of points, and how others are placed in it.

    Under the cosine a point of zeros has no direction: it is joined to nobody, and keeps what it
    has. A point that is equal to a fitted one is that node, the first of several.

    Args:
        x: [N, D] the points.
        k: neighbours of each; no more than half of the others, since a graph in which all are
            joined tells nothing.
        metric: "cosine" or "l2".
        kernel: how distances become weights, see :func:`jsem_pyg.graph.knn_graph`.
        seed: of an approximate search.

    Raises:
        ValueError: if fewer than three points have a direction.
    """

    def __init__(self, x: Tensor, k: int, metric: str, kernel: str | None, seed: int) -> None:
        self.metric = metric
        nodes = self._joinable(x).nonzero().flatten()
        if nodes.numel() < 3:
            raise ValueError(
                f"Expected 'X' to have three rows or more that are not zero, since others have no "
                f"direction for metric={metric!r} (got {nodes.numel()} of {len(x)}). To fix this, "
                "use metric='l2'."
            )
        self.k = min(k, (nodes.numel() - 1) // 2)
        self._nodes = nodes
        self._index = NeighborIndex(
            x[nodes], self.k, metric, kernel=kernel, seed=seed, progress=False
        )
        self.data = Data(
            x=x, edge_index=nodes[self._index.edge_index], edge_weight=self._index.edge_weight
        )
        self.graph: TrainingGraph = prepare_graph(self.data)
        self._first = _first_equal(x)

    def place(self, x_new: Tensor) -> Place:
        """Find the neighbours of new points [M, D], each among the fitted points alone."""
        joined = self._joinable(x_new)
        neighbor = torch.zeros(len(x_new), self.k, dtype=torch.int64)
        weight = x_new.new_zeros(len(x_new), self.k)
        if bool(joined.any()):
            found, weight[joined] = self._index.links(x_new[joined])
            neighbor[joined] = self._nodes[found]
        node = torch.full((len(x_new),), -1)
        for column in neighbor.T:  # one by one: all at once would take k copies of the points
            is_equal = (x_new == self.graph.x[column]).all(1)
            node = torch.where(is_equal, self._first[column], node)
        return Place(neighbor, weight, node)

    def evaluate(
        self, x_new: Tensor, of_nodes: Tensor, at: Callable[[Tensor, Tensor, Tensor], Tensor]
    ) -> Tensor:
        """The rows of nodes for points that are nodes, and what is found at the places of others.

        Args:
            x_new: [M, D].
            of_nodes: [N, C].
            at: (x_new, neighbor, weight) -> [M, C].
        """
        found = []
        for part in x_new.split(CHUNK):
            place = self.place(part)
            new = at(part, place.neighbor, place.weight)
            found.append(torch.where((place.node >= 0)[:, None], of_nodes[place.node], new))
        return torch.cat(found)

    def _joinable(self, x: Tensor) -> Tensor:
        return (x != 0).any(1) if self.metric == "cosine" else torch.ones(len(x), dtype=torch.bool)


def _first_equal(x: Tensor) -> Tensor:
    """For each row [N, D] the first one that is equal to it: [N]."""
    _, first, group = np.unique(x.numpy(), axis=0, return_index=True, return_inverse=True)
    return torch.from_numpy(first[group.reshape(-1)])
