"""Stage 1: points -> weighted edges -> a structure that is prepared once.

:func:`knn_search` finds the nearest neighbours, :func:`knn_graph` makes an undirected, weighted,
connected graph of them, and :class:`NeighborIndex` places new points in it. :func:`knn_hyperedges`
makes a hypergraph of points.

Points are checked in `points.py`; `groups.py` separates the graphs of a batch. Small graphs are
searched in `all_pairs.py`, others as `searcher.py` decides: by `faiss_search.py` or
`tree_search.py`. `affinity.py` turns distances into weights. Components are joined in `connect.py`,
by the links that `component_links.py` finds.

:class:`GraphStructure`, :class:`HypergraphStructure` and :class:`SimplicialStructure` (edges and
triangles) are what every later stage works on: sorted and checked once, and the owner of all that
follows from the pattern. What a user hands over becomes one in `prepare.py` and
`prepare_hypergraph.py`, and nowhere else; `memory.py` is what is remembered.
"""

from .build import knn_graph
from .hyperedges import knn_hyperedges
from .hypergraph_structure import HypergraphStructure
from .knn import knn_search
from .neighbor_index import NeighborIndex
from .simplicial_structure import SimplicialStructure
from .structure import GraphStructure

__all__ = [
    "GraphStructure",
    "HypergraphStructure",
    "NeighborIndex",
    "SimplicialStructure",
    "knn_graph",
    "knn_hyperedges",
    "knn_search",
]
