"""Stage 5: two graphs -> which node is which, by Gromov-Wasserstein transport on factored costs.

A cost, such as :class:`HeatCost`, makes the :class:`Factor` of one graph, and
:func:`gromov_wasserstein` finds the :class:`Plan` between two. Beside it,

- :func:`match_graphs` compares graphs by their edges, :class:`AdjacencyCost`;
- :func:`batch_gromov_wasserstein` aligns many small pairs at once;
- :func:`sampled_gromov_wasserstein` knows costs by some of their columns, which need no factor.

:func:`heat_profiles` describes the nodes of a graph by how heat spreads from them, and
:func:`comparable` puts the profiles of two graphs on one scale.
"""

from .adjacency_cost import AdjacencyCost
from .barycenter import Barycenter, gw_barycenter
from .batch_costs import BatchCosts, batch_costs
from .batch_plan import BatchPlan
from .batched import batch_gromov_wasserstein, batch_gw_distance
from .columns import ColumnOracle, geodesic_columns
from .costs import CommuteCost, FeatureCost, GeodesicCost, HeatCost, MatrixCost, OracleCost
from .distance import gw_distance
from .factor import Factor
from .loss import GromovWassersteinLoss
from .matching import match_graphs
from .plan import Plan, Step
from .profiles import comparable, heat_profiles
from .sampled import sampled_gromov_wasserstein
from .solver import gromov_wasserstein
from .transfer import transfer_attributes

__all__ = [
    "AdjacencyCost",
    "Barycenter",
    "BatchCosts",
    "BatchPlan",
    "ColumnOracle",
    "CommuteCost",
    "Factor",
    "FeatureCost",
    "GeodesicCost",
    "GromovWassersteinLoss",
    "HeatCost",
    "MatrixCost",
    "OracleCost",
    "Plan",
    "Step",
    "batch_costs",
    "batch_gromov_wasserstein",
    "batch_gw_distance",
    "comparable",
    "geodesic_columns",
    "gromov_wasserstein",
    "gw_barycenter",
    "gw_distance",
    "heat_profiles",
    "match_graphs",
    "sampled_gromov_wasserstein",
    "transfer_attributes",
]
