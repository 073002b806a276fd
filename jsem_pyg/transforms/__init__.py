"""PyG's doors to stages 1 and 2: `Data` -> `Data`, each a thin wrapper of one function.

:class:`FaissKNNGraph` makes a graph of points, :class:`FormanCurvature` makes curvature an edge
feature; ``Compose([FaissKNNGraph(), FormanCurvature()])`` is what the layers of this package read.
:class:`KNNHyperedges`, :class:`CliqueHyperedges` and :class:`ClusterHyperedges` make hypergraphs,
:class:`DualHypergraph` turns edges into nodes.
"""

from .dual_hypergraph import DualHypergraph
from .faiss_knn_graph import FaissKNNGraph
from .forman_curvature import FormanCurvature
from .hyperedges import CliqueHyperedges, ClusterHyperedges, KNNHyperedges

__all__ = [
    "CliqueHyperedges",
    "ClusterHyperedges",
    "DualHypergraph",
    "FaissKNNGraph",
    "FormanCurvature",
    "KNNHyperedges",
]
