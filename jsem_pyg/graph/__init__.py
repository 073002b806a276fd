"""Stage 1: points -> weighted edges -> a structure that is prepared once.

:func:`knn_search` finds the nearest neighbours, :func:`affinity` turns their distances into
weights, :func:`knn_graph` makes an undirected, connected graph of them, and :class:`NeighborIndex`
places new points in it. :func:`patch_graph` joins the pixels of a picture that look alike.
`hyperedges.py` makes hypergraphs of points, graphs and labels, and draws them at random.

Points are prepared in `points.py`, and those of a batch told apart in `groups.py`. Small graphs are
searched in `all_pairs.py`, others as `searcher.py` decides: by `faiss_search.py` or
`torch_search.py`. Components are joined in `connect.py`, by the links that `exits.py` finds.

:class:`GraphStructure`, :class:`HypergraphStructure` and :class:`SimplicialStructure` (edges and
triangles) are what every later stage works on: sorted and checked once, and the owner of all that
follows from the pattern. What a user hands over becomes one in `prepare.py`,
`prepare_hypergraph.py` and `prepare_simplicial.py`, and nowhere else; `memory.py` is what is
remembered.
"""

from .affinity import MIN_WEIGHT, affinity, node_width, undirected_edges
from .build import knn_graph
from .hyperedges import (
    clique_hyperedges,
    cluster_hyperedges,
    dual_hypergraph,
    edge_hyperedges,
    knn_hyperedges,
    random_hyperedges,
)
from .hypergraph_structure import HypergraphStructure
from .knn import knn_search
from .neighbor_index import NeighborIndex
from .patches import patch_graph
from .simplicial_structure import SimplicialStructure
from .structure import GraphStructure

__all__ = [
    "MIN_WEIGHT",
    "GraphStructure",
    "HypergraphStructure",
    "NeighborIndex",
    "SimplicialStructure",
    "affinity",
    "clique_hyperedges",
    "cluster_hyperedges",
    "dual_hypergraph",
    "edge_hyperedges",
    "knn_graph",
    "knn_hyperedges",
    "knn_search",
    "node_width",
    "patch_graph",
    "random_hyperedges",
    "undirected_edges",
]
