"""Stage 5: two graphs -> which node is which, by Gromov-Wasserstein transport on factored costs.

:class:`Factor` stands for the costs inside one graph, :class:`Plan` for the answer.
:func:`heat_profiles` describes the nodes of a graph by how heat spreads from them, and
:func:`comparable` puts the profiles of two graphs on one scale.
:func:`match_graphs` compares graphs by their edges, :class:`AdjacencyCost`.
"""

from .adjacency_cost import AdjacencyCost
from .factor import Factor
from .matching import match_graphs
from .plan import Plan, Step
from .profiles import comparable, heat_profiles

__all__ = ["AdjacencyCost", "Factor", "Plan", "Step", "comparable", "heat_profiles", "match_graphs"]
