"""The neighbour graph of the points that an estimator was fitted to, and where new ones join it."""

from collections.abc import Callable
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from ..neighbors import NeighborIndex
from ..training.training_graph import TrainingGraph, prepare_graph

CHUNK = 1 << 13  # new points at once, each with the probabilities of all its neighbours


class FittedGraph:
    """The neighbour graph of points, and how others are placed in it.

    Under the cosine a point of zeros has no direction: it has no neighbour, and keeps its own
    features. A point that is equal to a fitted one is that node, the first of several.

    Args:
        x: [N, D] the points.
        k: neighbours of each; no more than half of the others, since a graph in which all are
            joined has no structure.
        metric: "cosine" or "l2".
        kernel: how distances become weights, see :func:`jsem_pyg.neighbors.knn_graph`.
        seed: of an approximate search.
    """

    def __init__(self, x: Tensor, k: int, metric: str, kernel: str | None, seed: int) -> None:
        self.metric, self.kernel = metric, kernel
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
        digests = _digests(x)
        last_first = reversed(list(enumerate(digests)))  # so that the first of equal rows stays
        self._nodes_of = {digest: node for node, digest in last_first}
        self.num_different = len(self._nodes_of)

    def evaluate(
        self, x_new: Tensor, of_nodes: Tensor, at: Callable[[Tensor, Tensor, Tensor], Tensor]
    ) -> Tensor:
        """The rows of nodes for points that are nodes, and `at` for others, each by itself.

        Args:
            x_new: [M, D].
            of_nodes: [N, C].
            at: (x_new [m, D], neighbor [m, k], weight [m, k]) -> [m, C]; the weights are zeros for
                a point without neighbours.
        """
        node = self._find(x_new)
        found = of_nodes[node]
        new = (node < 0).nonzero().flatten()
        for part in new.split(CHUNK) if len(new) else ():
            found[part] = at(x_new[part], *self._links(x_new[part]))
        return found

    def _find(self, x_new: Tensor) -> Tensor:
        """The node [M] that each point is equal to, or -1."""
        node = torch.tensor([self._nodes_of.get(key, -1) for key in _digests(x_new)])
        node = node.to(torch.int64)  # of no points, too
        return torch.where((self.graph.x[node] == x_new).all(1), node, -1)

    def _links(self, x_new: Tensor) -> tuple[Tensor, Tensor]:
        """The neighbours [m, k] of new points, among the fitted ones, and their weights [m, k]."""
        joined = self._joinable(x_new)
        neighbor = torch.zeros(len(x_new), self.k, dtype=torch.int64)
        weight = x_new.new_zeros(len(x_new), self.k)
        if bool(joined.any()):
            found, weight[joined] = self._index.links(x_new[joined])
            neighbor[joined] = self._nodes[found]
        return neighbor, weight

    def _joinable(self, x: Tensor) -> Tensor:
        return (x != 0).any(1) if self.metric == "cosine" else torch.ones(len(x), dtype=torch.bool)


def _digests(x: Tensor) -> list[bytes]:
    """A hash of each row [N, D], the same for equal rows."""
    rows = np.ascontiguousarray(x.numpy() + 0.0)  # so that -0 becomes 0
    return [blake2b(row, digest_size=16).digest() for row in rows]
