"""Finds neighbours in few dimensions, exactly, by a k-d tree."""

from typing import Any

import torch
from torch import Tensor

from .points import Points
from .search import Search

# With 25,000 points in three dimensions a search of all takes 0.05 s, by Faiss 2 s. The advantage
# falls with every dimension.
_MOST_DIMENSIONS = 6
_FEWEST_POINTS = 2048


class TreeSearch(Search):
    """A k-d tree of points on the CPU.

    Source: Maneewongvatana and Mount, "Analysis of approximate nearest neighbor searching with
    clustered point sets", 1999, as SciPy has it.
    """

    def __init__(self, points: Points, seed: int) -> None:
        from scipy.spatial import cKDTree

        self._tree: Any = cKDTree(points.centred().numpy(), balanced_tree=False)

    @classmethod
    def suits(cls, points: Points) -> bool:
        """Return True for many points in few dimensions, held in memory."""
        num_points, num_features = points.coordinates.shape
        few, many = num_features <= _MOST_DIMENSIONS, num_points >= _FEWEST_POINTS
        return few and many and not points.is_mapped

    def find(self, query: Tensor, k: int) -> Tensor:
        """Find the nearest points [Q, k]."""
        wanted = list(range(1, k + 1))
        found = self._tree.query(query.numpy(), wanted, workers=torch.get_num_threads())[1]
        return torch.from_numpy(found)
