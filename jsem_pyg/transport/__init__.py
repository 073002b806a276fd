"""Stage 5: two graphs -> which node is which, by Gromov-Wasserstein transport on factored costs.

:class:`Factor` stands for the costs inside one graph, :class:`Plan` for the answer.
"""

from .batch_costs import BatchCosts, batch_costs
from .batch_plan import BatchPlan
from .batched import batch_gromov_wasserstein, batch_gw_distance
from .columns import ColumnOracle, geodesic_columns
from .factor import Factor
from .plan import Plan, Step
from .sampled import sampled_gromov_wasserstein

__all__ = [
    "BatchCosts",
    "BatchPlan",
    "ColumnOracle",
    "Factor",
    "Plan",
    "Step",
    "batch_costs",
    "batch_gromov_wasserstein",
    "batch_gw_distance",
    "geodesic_columns",
    "sampled_gromov_wasserstein",
]
