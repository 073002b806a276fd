"""Clusterings into every number of clusters, and the levels among them that persist."""

from collections.abc import Iterator
from itertools import pairwise
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
    """A clustering, with the share of diffusion times at which it is the best one."""

    n_clusters: int
    persistence: float  #: in [0, 1], the share of diffusion times, on a logarithmic scale
    labels: np.ndarray  #: [N] the cluster of each point


class ClusterTree:
    r"""Clusterings of a graph into every number of clusters.

    The levels were each found by themselves, so that a cluster of one may be divided among several
    of a coarser one. Between them, the clusters of the next finer level are merged two by two,
    those first between which the most heat passes, compared with chance:

    .. math::
        a_{cd} = \frac{1}{m_c m_d} \sum_{i \in c, j \in d} \sqrt{p_i p_j} \, (e^{-t L})_{ij}

    where p_i is the node's share of all edge weights, :math:`m_c` that of a cluster, and t = 5. The
    affinity of a union is the mean of its parts, as in average linkage: what is merged is nested.

    Args:
        levels: at least one, the one that is taken first.
        structure: the graph.
        edge_weight: [E] its weights.
        finest: [N] a clustering into more clusters than any level has, or None.

    Attributes:
        levels: the one that the clusterer has taken, then the others by persistence.
        linkage: [K - 1, 4] the merges of the finest clusters, as SciPy has them: two clusters, a
            height in (0, 1] (1 / (1 + a): 1/2 where heat passes as by chance, 1 where none does),
            and the number of leaves. `scipy.cluster.hierarchy.dendrogram` draws it.
        finest: [N] the clusters that it merges, the leaves.

    Sources: Delvenne, Yaliraki and Barahona, "Stability of graph communities across time scales",
    2010; Sokal and Michener, 1958, for average linkage.
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
            by_number.setdefault(int(finest.max()) + 1, finest)
        self.finest = by_number[max(by_number)].copy()
        self._of = dict(sorted(by_number.items()))
        self._merges = {
            count: _Merges(labels, structure, edge_weight) for count, labels in self._of.items()
        }
        self.linkage = self._merges[max(by_number)].linkage()

    @property
    def n_finest(self) -> int:
        """The largest number of clusters that can be cut."""
        return max(self._of)

    def cut(self, n_clusters: int | None = None, *, min_size: int | None = None) -> np.ndarray:
        """The clusters [N] of one clustering, without fitting anew.

        Args:
            n_clusters: how many: those of the level of this number, or else of the next finer
                one, merged.
            min_size: or the fewest points that a cluster may have: the smallest of the finest
                clusters is merged with the one that it exchanges most heat with, until none is
                too small.

        Raises:
            TypeError: if both or none are given, or one is no integer.
            ValueError: if there is no level that fine, or no cluster can be that large.
        """
        if (n_clusters is None) == (min_size is None):
            raise TypeError(
                "Expected either 'n_clusters' or 'min_size' (got "
                f"{'none' if min_size is None else 'both'})."
            )
        if min_size is not None:
            check_positive_int("min_size", min_size)
            if min_size > len(self.finest):
                raise ValueError(
                    f"Expected 'min_size' to be at most the number of points, {len(self.finest)} "
                    f"(got {min_size})."
                )
            return self._merges[self.n_finest].until(min_size=min_size)[self._of[self.n_finest]]
        assert n_clusters is not None
        check_positive_int("n_clusters", n_clusters)
        finer = [count for count in self._of if count >= n_clusters]
        if not finer:
            raise ValueError(
                f"Expected 'n_clusters' to be at most {self.n_finest}, which is the finest level "
                f'(got {n_clusters}). To fix this, fit with n_clusters="auto" and a larger '
                "max_clusters, or with the number itself."
            )
        return self._merges[finer[0]].until(n_clusters=n_clusters)[self._of[finer[0]]]

    def linkage_of(self, labels: Any) -> np.ndarray:
        """The merges of any clustering of these points, such as the topics of BERTopic.

        Args:
            labels: [N] integers, each of 0, 1, ..., K - 1 at some point.

        Returns:
            [K - 1, 4] in SciPy's form, see `linkage`.

        Raises:
            ValueError: if the labels are not as many as the points, or some number is missing.
        """
        labels = np.asarray(labels)
        found = np.unique(labels)
        if labels.shape != self.finest.shape or not np.array_equal(found, np.arange(len(found))):
            raise ValueError(
                f"Expected 'labels' to have the numbers 0, 1, ... for {len(self.finest)} points "
                f"(got {list(labels.shape)} labels, {found[:10].tolist()} among them)."
            )
        return _Merges(labels.astype(np.int64), *self._graph).linkage()

    def links(self) -> list[tuple[int, np.ndarray]]:
        """Parents of the clusters of each level in the next coarser one.

        Returns:
            From the finest level on: its number of clusters C, and the share of each of them that
            lies in each cluster of the next coarser level, [C, C']; ones and zeros where the two
            are nested.
        """
        levels = sorted(self.levels, key=lambda level: -level.n_clusters)
        shares = []
        for fine, coarse in pairwise(levels):
            table = np.zeros((fine.n_clusters, coarse.n_clusters))
            np.add.at(table, (fine.labels, coarse.labels), 1)
            shares.append((fine.n_clusters, table / table.sum(1, keepdims=True)))
        return shares


class _Merges:
    """Successive merges of two clusters."""

    def __init__(self, labels: np.ndarray, structure: GraphStructure, weight: Tensor) -> None:
        self._size = np.bincount(labels).astype(float)
        self._heat, self._mass = _heat_between(torch.from_numpy(labels), structure, weight)

    def until(self, n_clusters: int = 1, min_size: int | None = None) -> np.ndarray:
        """Merge until there are so many, or none is too small: the new cluster [K] of each."""
        groups = [[cluster] for cluster in range(len(self._size))]
        for one, other, _ in self._steps(min_size):
            if len(groups) <= n_clusters:
                break
            groups[one] += groups.pop(other)
        merged = np.empty(len(self._size), dtype=np.int64)
        for number, group in enumerate(groups):
            merged[group] = number
        return merged

    def linkage(self) -> np.ndarray:
        """The merges in SciPy's form."""
        count, rows = len(self._size), list[list[float]]()
        name, leaves = list(range(count)), [1] * count
        for one, other, affinity in self._steps():
            pair = sorted((name[one], name.pop(other)))
            leaves[one] += leaves.pop(other)
            name[one] = count + len(rows)
            rows.append([*pair, 1 / (1 + affinity), leaves[one]])
        return np.array(rows, dtype=float).reshape(-1, 4)

    def _steps(self, min_size: int | None = None) -> Iterator[tuple[int, int, float]]:
        """Pairs to merge, the second into the first, with their affinity.

        Of clusters that are numbered anew after each merge, as a list is that loses an element.
        With `min_size`, one of a pair is the smallest cluster; it ends where that is large enough.
        """
        heat, mass, size = self._heat.copy(), self._mass.copy(), self._size.copy()
        while len(size) > 1:
            expected = mass[:, None] * mass
            affinity = np.divide(heat, expected, out=np.zeros_like(heat), where=expected > 0)
            np.fill_diagonal(affinity, -np.inf)
            one, other = divmod(int(affinity.argmax()), len(size))
            if min_size is not None:
                one = int(size.argmin())
                if size[one] >= min_size:
                    return
                other = int(affinity[one].argmax())
            one, other = min(one, other), max(one, other)
            size[one] += size[other]
            yield one, other, float(affinity[one, other])
            mass[one] += mass[other]
            heat[one] += heat[other]
            heat[:, one] += heat[:, other]
            kept = np.arange(len(size)) != other
            heat, mass, size = heat[np.ix_(kept, kept)], mass[kept], size[kept]


@torch.no_grad()
def _heat_between(
    labels: Tensor, structure: GraphStructure, weight: Tensor
) -> tuple[np.ndarray, np.ndarray]:
    """The heat [K, K] that passes between clusters, and the share [K] of all weights that each has.

    Its products over time t are those of what each cluster has reached after half of it.
    """
    labels = labels.to(weight.device)
    share = torch.zeros(len(labels), dtype=torch.float64, device=weight.device)
    share.index_add_(0, structure.edges[1], weight.double())
    share /= share.sum().clamp(min=torch.finfo(share.dtype).tiny)
    member = F.one_hot(labels).double()
    half = heat_diffusion(
        member * share.sqrt()[:, None], structure, weight.double(), TIME / 2, tol=TOLERANCE
    )
    return (half.T @ half).cpu().numpy(), (member.T @ share).cpu().numpy()
