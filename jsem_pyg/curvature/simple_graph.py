"""The graph as curvature needs it: undirected, sorted, and every edge once."""

from torch import Tensor

from .._checks import check_edge_index_shape
from ..graph import GraphStructure
from ..graph.read_structure import read_structure


def simple_graph(
    edge_index: Tensor | GraphStructure, num_nodes: int | None = None
) -> GraphStructure:
    """Sort and check the edges of a simple, undirected graph, unless they are prepared."""
    if not isinstance(edge_index, GraphStructure):
        check_edge_index_shape(edge_index)  # the values of a sparse matrix would be lost
    structure = read_structure(edge_index, num_nodes)
    if structure.has_repeated_edges:
        repeated = structure.num_edges - structure.num_slots
        raise ValueError(
            f"Expected 'edge_index' without repeated edges (got {repeated}). To fix this, call "
            "torch_geometric.utils.coalesce(edge_index, edge_weight)."
        )
    return structure
