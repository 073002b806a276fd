"""Any form of graph as a prepared structure."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.typing import SparseTensor

from ..._checks import check_edge_index_shape, check_nonnegative_int
from ...graph import GraphStructure


def read_structure(edge_index: Any, num_nodes: int | None = None) -> GraphStructure:
    """Prepare a graph unless it is prepared. N is the largest index + 1 if it is not given.

    Raises:
        TypeError: if `edge_index` is no graph, or `num_nodes` no integer.
        ValueError: if the graph is malformed, or `num_nodes` is not that of the structure.
    """
    if num_nodes is not None:
        check_nonnegative_int("num_nodes", num_nodes)
    if isinstance(edge_index, GraphStructure):
        if num_nodes not in (None, edge_index.num_nodes):
            raise ValueError(
                f"Expected 'num_nodes' to be {edge_index.num_nodes}, as the prepared 'edge_index' "
                f"(got {num_nodes})."
            )
        return edge_index
    if num_nodes is None:
        num_nodes = _count_nodes(edge_index)
    return GraphStructure(edge_index, num_nodes)


def _count_nodes(edge_index: Any) -> int:
    if isinstance(edge_index, SparseTensor):
        return int(edge_index.size(0))
    if isinstance(edge_index, Tensor) and edge_index.layout != torch.strided:
        return edge_index.size(0)
    check_edge_index_shape(edge_index)
    known = edge_index.sparse_size() if isinstance(edge_index, EdgeIndex) else ()
    largest = int(edge_index.max()) + 1 if edge_index.numel() else 0
    return max(largest, *(size or 0 for size in known), 0)
