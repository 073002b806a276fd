"""PyG transforms of points, edges and their geometry: `Data` -> `Data`, each a thin wrapper.

:class:`FaissKNNGraph` makes a graph of points, :class:`FormanCurvature` makes curvature an edge
feature; ``Compose([FaissKNNGraph(), FormanCurvature()])`` is what the layers of this package read.
:class:`BothDirections` makes directed graphs undirected and tells their one-way edges apart.
:class:`EdgeGeometry` appends further edge features. :class:`LocalityOrder` permutes a graph so that
neighbours lie close in memory, :class:`AddLowModes` adds positional encodings of nodes.
"""

from .both_directions import BothDirections
from .edge_columns import EdgeGeometry, FormanCurvature
from .faiss_knn_graph import FaissKNNGraph
from .locality_order import LocalityOrder
from .low_modes import AddLowModes

__all__ = [
    "AddLowModes",
    "BothDirections",
    "EdgeGeometry",
    "FaissKNNGraph",
    "FormanCurvature",
    "LocalityOrder",
]
