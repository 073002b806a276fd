"""Stage 9: representations -> scores against classes and graphs.

``clustering_scores`` compares k-means with the labels, ``dirichlet_energy`` measures how much a
signal varies along the edges.
``partition_scores`` compares any clustering with the labels, and ``modularity`` with the graph,
which needs no labels.
"""

from .clustering import clustering_scores
from .energy import dirichlet_energy
from .modularity import modularity
from .partition import partition_scores

__all__ = [
    "clustering_scores",
    "dirichlet_energy",
    "modularity",
    "partition_scores",
]
