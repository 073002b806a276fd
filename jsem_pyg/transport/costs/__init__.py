"""Every cost that makes a factor: of features, of a graph, of a matrix, of some of its columns.

A cost is a small object that never changes. It is called with the data, and returns a
:class:`~.Factor`, whose `error` says how far that is from what it stands for.
"""

from .commute import CommuteCost
from .feature import FeatureCost
from .geodesic import GeodesicCost
from .heat import HeatCost
from .matrix import MatrixCost
from .oracle import OracleCost

__all__ = [
    "CommuteCost",
    "FeatureCost",
    "GeodesicCost",
    "HeatCost",
    "MatrixCost",
    "OracleCost",
]
