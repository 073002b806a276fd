"""Clusters by the smoothest modes of the graph: of any shape, where they lie apart.

A linear classifier of features cannot tell two circles apart, one within the other; the modes can.
The k smoothest modes of the normalised Laplacian, with rows of length one, are clustered by k-means
(Ng, Jordan and Weiss, "On spectral clustering", 2001). Where k clusters lie apart, k eigenvalues
are close to zero and the next one is not.
"""

import torch
from torch import Tensor

from .._precision import unit_rows
from ..diffusion import low_modes
from ..evaluation.modularity import cut_and_modularity
from .clusters import k_means
from .training_graph import TrainingGraph

MOST_MODES = 100  # more clusters are left to self-training
# Eigenvalues of a single interval, circle or disc grow by factors of at most four: a larger one
# stands between clusters. Chosen, like all below, on sets that are not reported.
APART = 5.0
SMALLEST = 1e-7  # eigenvalues below are alike: links between components may be as weak
MARGIN = 0.01  # of modularity, by which clusters of the graph alone have to be better
WORTH = 0.5  # the share of another modularity that clusters need where they lie apart:
APART_CUT = 10  # times less weight is between them; or, as a pair:
FAR_APART_CUT, FAR_APART_WORTH = 1e4, 0.1


class SpectralClusters:
    """The smoothest modes of a graph, and the clusters in them.

    Nodes without edges have no modes; they count to the first cluster. There are modes for up to
    `largest` clusters, and `numbers_apart` of them lie apart.
    """

    def __init__(self, graph: TrainingGraph, largest: int, seed: int) -> None:
        self._graph, self._seed = graph, seed
        self._nodes = graph.edge_index[0].unique()
        self.largest = min(largest, MOST_MODES, len(self._nodes) - 2)
        self.numbers_apart: list[int] = []
        if self.largest < 2:
            return
        place = self._nodes.new_empty(len(graph.x))
        place[self._nodes] = torch.arange(len(self._nodes), device=place.device)
        weight = None if graph.edge_weight is None else graph.edge_weight.double()
        edges = place[graph.edge_index]
        eigenvalues, self._modes = low_modes(edges, self.largest + 1, weight, seed=seed)
        eigenvalues = eigenvalues.clamp(min=SMALLEST)
        ratio = eigenvalues[2:] / eigenvalues[1:-1]
        self.numbers_apart = (2 + (ratio >= APART).nonzero().flatten()).tolist()

    def labels(self, count: int) -> Tensor:
        """Find `count` clusters: [N]."""
        rows = unit_rows(self._modes[:, :count])
        clusters = torch.from_numpy(k_means(rows, count, self._seed).labels_).to(self._nodes)
        return self._nodes.new_zeros(len(self._graph.x)).index_put((self._nodes,), clusters)


def is_better(found: Tensor, other: Tensor, graph: TrainingGraph) -> bool:
    """Return True if the graph prefers clusters `found` [N] to other ones [N].

    It does if their modularity is higher, or where they lie so far apart that modularity, which
    prefers clusters of equal size, is not the measure.
    """
    (cut, own), (others_cut, others) = (
        cut_and_modularity(graph.edge_index, graph.edge_weight, labels) for labels in (found, other)
    )
    return (
        own > others + MARGIN
        or (own > WORTH * others and cut * APART_CUT < others_cut)
        or (own > FAR_APART_WORTH * others and cut * FAR_APART_CUT < others_cut)
    )
