"""Stage 7: two graphs -> which nodes correspond, by Gromov-Wasserstein transport.

A cost, such as :class:`HeatCost`, makes the :class:`Factor` of one graph, and
:func:`gromov_wasserstein` finds the :class:`Plan` between two. Two solvers take
other costs:

- :func:`match_graphs` compares graphs by their edges, :class:`AdjacencyCost`;
- :func:`sampled_gromov_wasserstein` computes single columns of costs, and needs no factor.

:func:`heat_profiles` describes the nodes of a graph by how heat spreads from them, and
:func:`comparable` puts the profiles of two graphs on one scale.
"""

from .costs import (
    AdjacencyCost,
    ColumnCost,
    Factor,
    FeatureCost,
    GeodesicCost,
    HeatCost,
    MatrixCost,
    geodesic_columns,
)
from .distance.distance import gw_distance
from .match.matching import match_graphs
from .plan.plan import Plan
from .profiles import comparable, heat_profiles
from .sampled.solver import sampled_gromov_wasserstein
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
    "comparable",
    "geodesic_columns",
    "gromov_wasserstein",
    "gw_distance",
    "heat_profiles",
    "match_graphs",
    "sampled_gromov_wasserstein",
]
