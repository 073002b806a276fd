"""Every cost that makes a factor: of features, of a graph, of a matrix, of some of its columns.

A cost is a small object that never changes. It is called with the data, and returns a
:class:`~.factor.Factor`, whose `error` says how far that is from what it stands for.
"""

from .commute_cost import CommuteCost
from .feature_cost import FeatureCost
from .geodesic_cost import GeodesicCost
from .heat_cost import HeatCost
from .matrix_cost import MatrixCost
from .oracle_cost import OracleCost

__all__ = [
    "CommuteCost",
    "FeatureCost",
    "GeodesicCost",
    "HeatCost",
    "MatrixCost",
    "OracleCost",
]
