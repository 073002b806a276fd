"""Stage 5: two graphs -> which node is which, by Gromov-Wasserstein transport on factored costs.

:class:`Factor` stands for the costs inside one graph, :class:`Plan` for the answer.
"""

from .batch_costs import BatchCosts, batch_costs
from .batch_plan import BatchPlan
from .batched import batch_gromov_wasserstein, batch_gw_distance
from .factor import Factor
from .plan import Plan, Step

__all__ = [
    "BatchCosts",
    "BatchPlan",
    "Factor",
    "Plan",
    "Step",
    "batch_costs",
    "batch_gromov_wasserstein",
    "batch_gw_distance",
]
