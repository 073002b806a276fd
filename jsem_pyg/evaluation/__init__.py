"""Stage 7, representations -> numbers: how well do diffused points show their classes?

``clustering_scores`` compares k-means with the labels, ``neighbour_purity`` asks how often
neighbours share a class, ``dirichlet_energy`` measures how much a signal varies along the edges.
"""

from .clustering import ClusteringScores, SeedScores, clustering_scores
from .energy import dirichlet_energy
from .purity import neighbour_purity

__all__ = [
    "ClusteringScores",
    "SeedScores",
    "clustering_scores",
    "dirichlet_energy",
    "neighbour_purity",
]
