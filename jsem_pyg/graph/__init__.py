"""Stage 1: points -> weighted edges.

:func:`knn_search` finds the nearest neighbours, :func:`affinity` turns their distances into
weights, :func:`knn_graph` makes an undirected, connected graph of them. Points are prepared in
`points.py`; components are joined in `connect.py`. `hyperedges.py` makes hypergraphs of points,
graphs and labels.
"""

from .affinity import MIN_WEIGHT, affinity, node_width, undirected_edges
from .build import knn_graph
from .hyperedges import (
    clique_hyperedges,
    cluster_hyperedges,
    dual_hypergraph,
    edge_hyperedges,
    knn_hyperedges,
)
from .knn import knn_search

__all__ = [
    "MIN_WEIGHT",
    "affinity",
    "clique_hyperedges",
    "cluster_hyperedges",
    "dual_hypergraph",
    "edge_hyperedges",
    "knn_graph",
    "knn_hyperedges",
    "knn_search",
    "node_width",
    "undirected_edges",
]
