"""The interface of a k-NN search: made of points, it proposes neighbours of others."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from .points import Points


class Search(ABC):
    """Abstract: proposes the nearest of N points. `searcher.py` ranks what it proposes.

    Args:
        points: the N points.
        seed: for what is random.
    """

    is_exact: ClassVar[bool] = True

    @abstractmethod
    def __init__(self, points: Points, seed: int) -> None: ...

    @classmethod
    @abstractmethod
    def suits(cls, points: Points) -> bool:
        """Return True if `index="auto"` takes this search, unless an earlier one suits as well."""

    @abstractmethod
    def find(self, query: Tensor, k: int) -> Tensor:
        """Find about k points near each query.

        Args:
            query: [Q, F] float32, with the mean of the N points as the origin.
            k: at most N.

        Returns:
            [Q, k] numbers of points, all different, in any order; -1 if there are fewer.
        """

    def order(self, num_points: int) -> Tensor:
        """Return the points [N] in the order in which it is fastest to search for them."""
        return torch.arange(num_points)


class ApproximateSearch(Search):
    """Abstract: a search that may miss neighbours, the fewer the larger its budget.

    Attributes:
        budget: how much it looks at for one query.
        most: the largest budget.
    """

    is_exact = False
    budget: int
    most: int

    @abstractmethod
    def set_budget(self, budget: int) -> None:
        """Set how much a search looks at from now on."""
