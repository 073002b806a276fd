"""PyG transforms of points, edges and their geometry: `Data` -> `Data`, each a thin wrapper.

:class:`FaissKNNGraph` makes a graph of points and can take new ones, :class:`FormanCurvature` makes
curvature an edge feature; ``Compose([FaissKNNGraph(), FormanCurvature()])`` is what the layers of
this package read. :class:`EdgeGeometry` appends further edge features. :class:`KNNHyperedges`,
:class:`CliqueHyperedges` and :class:`ClusterHyperedges` make hypergraphs, :class:`DualHypergraph`
turns edges into nodes. :class:`LocalityOrder` permutes a graph so that neighbours lie close in
memory.
"""

from .dual_hypergraph import DualHypergraph
from .edge_geometry import EdgeGeometry
from .faiss_knn_graph import FaissKNNGraph
from .forman_curvature import FormanCurvature
from .hyperedges import CliqueHyperedges, ClusterHyperedges, KNNHyperedges
from .locality_order import LocalityOrder

__all__ = [
    "CliqueHyperedges",
    "ClusterHyperedges",
    "DualHypergraph",
    "EdgeGeometry",
    "FaissKNNGraph",
    "FormanCurvature",
    "KNNHyperedges",
    "LocalityOrder",
]
