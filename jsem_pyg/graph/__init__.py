"""Stage 1: points -> weighted edges.

:func:`knn_search` finds the nearest neighbours, :func:`affinity` turns their distances into
weights, :func:`knn_graph` makes an undirected, connected graph of them. Points are prepared in
`points.py`; components are joined in `connect.py`.
"""

from .affinity import MIN_WEIGHT, affinity, node_width, undirected_edges
from .build import knn_graph
from .knn import knn_search

__all__ = [
    "MIN_WEIGHT",
    "affinity",
    "knn_graph",
    "knn_search",
    "node_width",
    "undirected_edges",
]
