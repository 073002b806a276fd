"""Merges the clusters of a graph into every number of clusters."""

from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .._checks import check_positive_int
from ..diffusion import heat_diffusion
from ..graph import GraphStructure

TIME = 5.0  # of the heat that passes between clusters
TOLERANCE = 1e-4  # of it


class ClusterLevel(NamedTuple):
    """Holds a clustering, and the share of diffusion times at which it is the best one."""

    n_clusters: int
    persistence: float  #: in [0, 1], the share of diffusion times, on a logarithmic scale
    labels: np.ndarray  #: [N] the cluster of each point


class ClusterTree:
    r"""Holds clusterings of a graph into every number of clusters.

    Every level was found by itself, and need not be nested in others. For numbers between levels,
    the clusters of the next finer one are merged two by two, that pair first between which the most
    heat passes, compared with chance:

    .. math::
        a_{cd} = \frac{1}{m_c m_d} \sum_{i \in c, j \in d} \sqrt{p_i p_j} \, (e^{-t L})_{ij}.

    Here p_i is the node's share of all edge weights, :math:`m_c` is the cluster's share, and
    t = 5. The affinity of a union is the mean of its parts, as in average linkage.

    Args:
        levels: at least one; the clusterer has taken the first.
        structure, edge_weight: the graph, and its weights [E].
        finest: [N] a clustering into more clusters than any level has, or None.

    Attributes:
        levels: first the one that the clusterer has taken, then the others by persistence.
        linkage: [K - 1, 4] merges of the finest clusters, for SciPy's `dendrogram`: two clusters, a
            height 1 / (1 + a) (1/2 if heat passes as by chance), and the number of leaves.
        finest: [N] the clusters that it merges, the leaves.

    Sources: as `choose_num_classes`; Sokal and Michener, 1958, for average linkage.
    """

    def __init__(
        self,
        levels: list[ClusterLevel],
        structure: GraphStructure,
        edge_weight: Tensor,
        finest: np.ndarray | None = None,
    ) -> None:
        self.levels = levels
        self._graph = structure, edge_weight
        # Copies: the arrays of the levels, and `finest`, are the user's to change.
        by_number = {level.n_clusters: level.labels.copy() for level in levels}
        if finest is not None:
            by_number.setdefault(int(finest.max()) + 1, finest.copy())
        self._labels = dict(sorted(by_number.items()))
        self.finest = self._labels[self.n_finest].copy()
        self.linkage = self.linkage_of(self.finest)

    @property
    def n_finest(self) -> int:
        """The largest number of clusters that can be cut."""
        return max(self._labels)

    def cut(self, n_clusters: int) -> np.ndarray:
        """Return the clusters [N] of one clustering, without fitting anew."""
        check_positive_int("n_clusters", n_clusters)
        if n_clusters > self.n_finest:
            raise ValueError(
                f"Expected 'n_clusters' to be at most {self.n_finest}, which is the finest level "
                f"(got {n_clusters}). To fix this, fit with a larger number."
            )
        labels = self._labels[min(count for count in self._labels if count >= n_clusters)]
        return _merge(labels, *self._graph, n_clusters)[0][labels]

    def linkage_of(self, labels: Any) -> np.ndarray:
        """Merge any clustering [N] of these points, such as the topics of BERTopic, as `linkage`.

        Labels are integers; every number 0, 1, ..., K - 1 belongs to some point.
        """
        labels = np.asarray(labels)
        found = np.unique(labels)
        if labels.shape != self.finest.shape or not np.array_equal(found, np.arange(len(found))):
            raise ValueError(
                f"Expected 'labels' to have the numbers 0, 1, ... for {len(self.finest)} points "
                f"(got {list(labels.shape)} labels, {found[:10].tolist()} among them)."
            )
        return _merge(labels.astype(np.int64), *self._graph)[1]


def _merge(
    labels: np.ndarray, structure: GraphStructure, edge_weight: Tensor, n_clusters: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Merge clusters two by two until `n_clusters` are left.

    Returns the new number of each cluster, [K], and the merges in SciPy's form, [steps, 4].
    """
    heat, mass = _heat_between(torch.from_numpy(labels), structure, edge_weight)
    count = len(mass)
    groups = [[cluster] for cluster in range(count)]
    names, rows = list(range(count)), []
    while len(groups) > n_clusters:
        chance = np.outer(mass, mass)
        affinity = np.divide(heat, chance, out=np.zeros_like(heat), where=chance > 0)
        np.fill_diagonal(affinity, -np.inf)
        one, other = sorted(divmod(int(affinity.argmax()), len(groups)))
        pair = sorted((names[one], names[other]))
        groups[one] += groups.pop(other)
        rows.append([*pair, 1 / (1 + affinity[one, other]), len(groups[one])])
        names[one] = count + len(rows) - 1
        del names[other]
        for total in (mass, heat, heat.T):
            total[one] += total[other]
        mass = np.delete(mass, other)
        heat = np.delete(np.delete(heat, other, 0), other, 1)
    merged = np.empty(count, dtype=np.int64)
    for number, group in enumerate(groups):
        merged[group] = number
    return merged, np.array(rows, dtype=float).reshape(-1, 4)


@torch.no_grad()
def _heat_between(
    labels: Tensor, structure: GraphStructure, weight: Tensor
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the heat [K, K] that passes between clusters, and their shares [K] of all weights."""
    weight = weight.double()
    share = torch.zeros(len(labels), dtype=torch.float64)
    share.index_add_(0, structure.edges[1].long(), weight)
    share /= share.sum().clamp(min=torch.finfo(share.dtype).tiny)
    member = F.one_hot(labels).double()
    start = member * share.sqrt()[:, None]
    # Heat that passes in the time t is the product of the heat of two clusters after half of it.
    half = heat_diffusion(start, structure, weight, TIME / 2, tol=TOLERANCE)
    return (half.T @ half).numpy(), (member.T @ share).numpy()
