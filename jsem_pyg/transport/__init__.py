"""Stage 5: two graphs -> which node is which, by Gromov-Wasserstein transport on factored costs.

:class:`Factor` stands for the costs inside one graph, :class:`Plan` for the answer.
"""

from .factor import Factor
from .plan import Plan, Step

__all__ = ["Factor", "Plan", "Step"]
