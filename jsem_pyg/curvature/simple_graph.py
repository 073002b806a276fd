"""The graph as curvature needs it: undirected, sorted, and every edge once."""

from typing import Any

from torch import Tensor

from .._checks import check_edge_index_shape, check_nonnegative_int
from ..graph import GraphStructure


def simple_graph(
    edge_index: Tensor | GraphStructure, num_nodes: int | None = None
) -> GraphStructure:
    """Sort and check the edges of a simple, undirected graph, unless they are.

    Args:
        edge_index: [2, E] both directions of every edge once, in any order, no self-loops; or a
            prepared structure of such a graph.
        num_nodes: N; the largest index + 1, or that of the structure, where it is None.

    Raises:
        TypeError: if `edge_index` is not a tensor.
        ValueError: if it is not an integer tensor of shape [2, E] with entries in [0, N), or holds
            self-loops, repeated edges, or edges without their reverse.
    """
    structure = _prepare(edge_index, num_nodes)
    if structure.has_repeated_edges:
        repeated = structure.num_edges - structure.num_slots
        raise ValueError(
            f"Expected 'edge_index' without repeated edges (got {repeated}). To fix this, call "
            "torch_geometric.utils.coalesce(edge_index, edge_weight)."
        )
    return structure


def _prepare(edge_index: Any, num_nodes: int | None) -> GraphStructure:
    if num_nodes is not None:
        check_nonnegative_int("num_nodes", num_nodes)
    if isinstance(edge_index, GraphStructure):
        if num_nodes not in (None, edge_index.num_nodes):
            raise ValueError(
                f"Expected 'num_nodes' to be {edge_index.num_nodes}, as the prepared 'edge_index' "
                f"(got {num_nodes})."
            )
        return edge_index
    check_edge_index_shape(edge_index)
    if num_nodes is None:
        num_nodes = int(edge_index.max()) + 1 if edge_index.numel() else 0
    return GraphStructure(edge_index, num_nodes)
