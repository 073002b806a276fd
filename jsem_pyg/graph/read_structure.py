"""Reads a graph without a signal: its number of nodes, and its prepared structure."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.typing import SparseTensor

from .._checks import check_edge_index_shape, check_nonnegative_int
from .structure import GraphStructure

# More nodes than this, and than so many for every edge, are identifiers that were not renumbered.
_MOST_NODES, _NODES_OF_AN_EDGE = 5_000_000, 10


def read_structure(edge_index: Any, num_nodes: int | None = None) -> GraphStructure:
    """Prepare a graph, unless it is prepared; see :func:`count_nodes` for N."""
    size = count_nodes(edge_index, num_nodes)
    if not isinstance(edge_index, GraphStructure):
        return GraphStructure(edge_index, size)
    if size != edge_index.num_nodes:
        raise ValueError(
            f"Expected 'num_nodes' to be {edge_index.num_nodes}, as the prepared 'edge_index' "
            f"(got {num_nodes})."
        )
    return edge_index


def count_nodes(edge_index: Any, num_nodes: int | None = None, nodes: Tensor | None = None) -> int:
    """Return N: `num_nodes` if given, else the size of the graph, else the largest index + 1."""
    if num_nodes is not None:
        check_nonnegative_int("num_nodes", num_nodes)
        return int(num_nodes)
    if isinstance(edge_index, GraphStructure):
        return edge_index.num_nodes
    is_sparse = isinstance(edge_index, Tensor) and edge_index.layout != torch.strided
    if is_sparse or isinstance(edge_index, SparseTensor):
        return int(edge_index.size(0))
    check_edge_index_shape(edge_index)
    known = edge_index.sparse_size() if isinstance(edge_index, EdgeIndex) else ()
    indices = (edge_index,) if nodes is None else (edge_index, nodes)
    largest = (int(each.max()) + 1 for each in indices if each.numel())
    size = max([0, *(size or 0 for size in known), *largest])
    if size > max(_MOST_NODES, _NODES_OF_AN_EDGE * edge_index.size(1)):
        raise ValueError(
            f"Expected 'edge_index' to number the nodes from 0 on (got node {size - 1} in a graph "
            f"of {edge_index.size(1)} columns, nearly all of whose nodes have no edge). To fix "
            "this, renumber the nodes: nodes, edge_index = edge_index.unique(return_inverse=True); "
            "or, if the others are nodes as well, pass 'num_nodes'."
        )
    return size
