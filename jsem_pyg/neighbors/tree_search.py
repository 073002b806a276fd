"""The neighbours of points in few dimensions, exactly, by a k-d tree."""

from typing import Any

import torch
from torch import Tensor

# With 25,000 points in three dimensions a search of all takes 0.05 s, by Faiss 2 s. The advantage
# falls with every dimension.
_MOST_DIMENSIONS = 6
_FEWEST_POINTS = 2048
_NEAREST, _MOST_TREES = 64, 64  # in the search for links between components
_MOST_IN_ONE_PLACE = 64  # points of a leaf are compared one by one


class Tree:
    """A k-d tree of points on the CPU.

    Source: Maneewongvatana and Mount, "Analysis of approximate nearest neighbor searching with
    clustered point sets", 1999, as SciPy has it.
    """

    def __init__(self, base: Tensor) -> None:
        from scipy.spatial import cKDTree

        self.tree: Any = cKDTree(base.numpy(), balanced_tree=False)

    def search(self, query: Tensor, k: int) -> Tensor:
        """For each query [Q, F] the k nearest points: [Q, k]."""
        wanted = list(range(1, k + 1))
        found = self.tree.query(query.numpy(), wanted, workers=torch.get_num_threads())[1]
        return torch.from_numpy(found)


def pays(base: Tensor) -> bool:
    """True if a tree of these points [B, F] is faster than comparing all of them."""
    if base.size(1) > _MOST_DIMENSIONS or base.size(0) < _FEWEST_POINTS:
        return False
    # A tree cannot separate points in one place; these have the same product with anything.
    line = (base @ torch.linspace(1, 2, base.size(1), dtype=base.dtype).square()).sort().values
    return not bool((line[_MOST_IN_ONE_PLACE:] == line[:-_MOST_IN_ONE_PLACE]).any())


def nearest_outside(rows: Tensor, label: Tensor, query: Tensor) -> Tensor | None:
    """The nearest point [Q] with another label, of each of the points `query` [Q].

    Where it is not among the nearest of all, the component is large: its points are looked up in a
    tree of all others. None where there are too many of these components.

    Args:
        rows: [N, F] points, for which a tree pays.
        label: [N] the component of each.
        query: [Q] which points.
    """
    found = Tree(rows).search(rows[query], min(_NEAREST, rows.size(0)))
    is_outside = label[found] != label[query][:, None]
    result = found.gather(1, is_outside.long().argmax(1, keepdim=True))[:, 0]
    missing = ~is_outside.any(1)
    components = label[query[missing]].unique()
    if components.numel() > _MOST_TREES:
        return None
    for component in components:
        others = (label != component).nonzero()[:, 0]
        inside = missing & (label[query] == component)
        result[inside] = others[Tree(rows[others]).search(rows[query[inside]], 1)[:, 0]]
    return result
