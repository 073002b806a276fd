"""Stage 9: representations -> scores against classes and graphs.

``clustering_scores`` compares k-means with the labels, ``partition_scores`` any clustering.
``modularity`` compares a clustering with the graph, and ``dirichlet_energy`` a signal.
"""

from .clustering import clustering_scores, partition_scores
from .energy import dirichlet_energy
from .modularity import modularity

__all__ = ["clustering_scores", "dirichlet_energy", "modularity", "partition_scores"]
