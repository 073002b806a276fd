"""Stage 7: two graphs -> which nodes correspond, by Gromov-Wasserstein transport.

A cost, such as :class:`HeatCost`, makes the :class:`Factor` of one graph, and
:func:`gromov_wasserstein` finds the :class:`Plan` between two. Two solvers take
other costs:

- :func:`match_graphs` compares graphs by their edges, :class:`AdjacencyCost`;
- :func:`sampled_gromov_wasserstein` computes single columns of costs, and needs no factor.
"""

from .costs import (
    AdjacencyCost,
    ColumnCost,
    Factor,
    FeatureCost,
    GeodesicCost,
    HeatCost,
    MatrixCost,
)
from .distance.distance import gw_distance
from .match.matching import match_graphs
from .plan.plan import Plan
from .sampled import sampled_gromov_wasserstein
from .solver.solver import gromov_wasserstein

__all__ = [
    "AdjacencyCost",
    "ColumnCost",
    "Factor",
    "FeatureCost",
    "GeodesicCost",
    "HeatCost",
    "MatrixCost",
    "Plan",
    "gromov_wasserstein",
    "gw_distance",
    "match_graphs",
    "sampled_gromov_wasserstein",
]
