"""Stage 5: two graphs -> which node is which, by Gromov-Wasserstein transport on factored costs.

:class:`Factor` stands for the costs inside one graph, :class:`Plan` for the answer. What makes
factors is gathered in `costs.py`.
"""

from .costs import CommuteCost, FeatureCost, GeodesicCost, HeatCost, MatrixCost, OracleCost
from .factor import Factor
from .plan import Plan, Step

__all__ = [
    "CommuteCost",
    "Factor",
    "FeatureCost",
    "GeodesicCost",
    "HeatCost",
    "MatrixCost",
    "OracleCost",
    "Plan",
    "Step",
]
