"""Costs inside one space: recipes that make a factor, and the views of a cost matrix.

A recipe, such as :class:`HeatCost`, is a small object that never changes. It is called with the
data, and returns a :class:`Factor`, whose `error` is the part of the cost matrix that it misses.
"""

from .adjacency import AdjacencyCost
from .columns import ColumnCost, read_cost
from .cost import Cost
from .factor import Factor
from .feature import FeatureCost
from .geodesic import GeodesicCost
from .heat import HeatCost
from .matrix import MatrixCost

__all__ = [
    "AdjacencyCost",
    "ColumnCost",
    "Cost",
    "Factor",
    "FeatureCost",
    "GeodesicCost",
    "HeatCost",
    "MatrixCost",
    "read_cost",
]
