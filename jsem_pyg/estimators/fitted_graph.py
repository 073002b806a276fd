"""The neighbour graph that an estimator was fitted to; new points are placed in it."""

from collections.abc import Callable
from hashlib import blake2b

import torch
from torch import Tensor

from ..graph import GraphStructure
from ..neighbors import NeighborIndex
from ..training.training_graph import TrainingGraph

CHUNK = 1 << 13  # new points at once, each with the probabilities of all its neighbours


class FittedGraph:
    """The neighbour graph of points, in which new points are placed.

    Under the cosine a point of zeros has no direction: it has no neighbour, and keeps its own
    features. A new point that is equal to a fitted one is that node, the first of several.

    Args:
        x: [N, D] the points.
        k: neighbours of each point; at most half of the others, since a graph that joins all
            points has no structure.
        metric: "cosine" or "l2".
        kernel: how distances become weights, see :func:`jsem_pyg.neighbors.knn_graph`.
        seed: of an approximate search.
    """

    def __init__(self, x: Tensor, k: int, metric: str, kernel: str | None, seed: int) -> None:
        self.metric, self.kernel = metric, kernel
        nodes = self._has_direction(x).nonzero().flatten()
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
        self.graph = TrainingGraph(x, nodes[self._index.edge_index], self._index.edge_weight)
        self._node_of: dict[bytes, int] = {}
        for node, digest in enumerate(_digests(x)):
            self._node_of.setdefault(digest, node)
        self.num_different = len(self._node_of)

    @property
    def edges(self) -> tuple[GraphStructure, Tensor]:
        """The structure of the graph, and its weights [E]."""
        assert self.graph.edge_weight is not None
        return self.graph.structure, self.graph.edge_weight

    def evaluate(
        self, x_new: Tensor, of_nodes: Tensor, at: Callable[[Tensor, Tensor, Tensor], Tensor]
    ) -> Tensor:
        """Look up the rows of fitted points; call `at` for new ones.

        Args:
            x_new: [M, D].
            of_nodes: [N, C].
            at: a function of new points [m, D], their neighbours [m, k] and weights [m, k] that
                returns [m, C]; a point without neighbours has weights of zero.
        """
        node = torch.tensor([self._node_of.get(key, -1) for key in _digests(x_new)]).long()
        found = of_nodes[node]
        new = (node < 0).nonzero().flatten()
        for part in new.split(CHUNK) if len(new) else ():
            found[part] = at(x_new[part], *self._links(x_new[part]))
        return found

    def _links(self, x_new: Tensor) -> tuple[Tensor, Tensor]:
        """Find the fitted neighbours [m, k] of new points, and the weights [m, k]."""
        joined = self._has_direction(x_new)
        neighbor = torch.zeros(len(x_new), self.k, dtype=torch.int64)
        weight = x_new.new_zeros(len(x_new), self.k)
        if bool(joined.any()):
            found, weight[joined] = self._index.links(x_new[joined])
            neighbor[joined] = self._nodes[found]
        return neighbor, weight

    def _has_direction(self, x: Tensor) -> Tensor:
        return (x != 0).any(1) if self.metric == "cosine" else torch.ones(len(x), dtype=torch.bool)


def _digests(x: Tensor) -> list[bytes]:
    """Hash each row [N, D]; equal rows have equal hashes."""
    rows = (x + 0.0).contiguous().numpy()  # -0 becomes 0
    return [blake2b(row, digest_size=16).digest() for row in rows]
