"""Stage 1: points -> nearest neighbours -> weighted edges.

:func:`knn_search` finds the nearest neighbours, :func:`knn_graph` makes an undirected, weighted,
connected graph of them, and :class:`NeighborIndex` places new points in it.

Points are checked in `points.py`. The searches stand in a table, `searches.py`, and have a file
each; `searcher.py` ranks what they find. `affinity.py` turns distances into weights. Components
are joined in `connect.py`, by the links that `component_links.py` finds.
"""

from .build import knn_graph
from .knn import knn_search
from .neighbor_index import NeighborIndex

__all__ = ["NeighborIndex", "knn_graph", "knn_search"]
