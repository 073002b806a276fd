"""PyG's doors to stages 1 and 2: `Data` -> `Data`, each a thin wrapper of one function.

:class:`FaissKNNGraph` makes a graph of points and can take new ones, :class:`FormanCurvature` makes
curvature an edge feature; ``Compose([FaissKNNGraph(), FormanCurvature()])`` is what the layers of
this package read.
"""

from .faiss_knn_graph import FaissKNNGraph
from .forman_curvature import FormanCurvature

__all__ = ["FaissKNNGraph", "FormanCurvature"]
