"""Edges and triangles of a complex: read, and checked one by one."""

import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from .._checks import (
    check_dense,
    check_edge_index_shape,
    check_node_index,
    check_nonnegative_int,
    check_tensor,
)


def read_edges(edge_index: Tensor, num_nodes: int | None) -> tuple[Tensor, int]:
    """The columns in int64, and N."""
    if isinstance(edge_index, EdgeIndex):
        edge_index = edge_index.as_tensor()
    check_edge_index_shape(edge_index)
    edge_index = edge_index.detach().long()
    if num_nodes is None:
        num_nodes = int(edge_index.max()) + 1 if edge_index.numel() else 0
    check_nonnegative_int("num_nodes", num_nodes)
    check_node_index("edge_index", edge_index, num_nodes)
    loops = int((edge_index[0] == edge_index[1]).sum())
    if loops:
        raise ValueError(
            f"Expected 'edge_index' without self-loops (got {loops}), along which nothing flows. "
            "To fix this, call torch_geometric.utils.remove_self_loops(edge_index, x)."
        )
    return edge_index, int(num_nodes)


def check_repeats(edge_index: Tensor, edge: Tensor, sign: Tensor) -> None:
    """Raise if two columns are the same edge in the same direction."""
    times = torch.bincount(2 * edge + (sign > 0))
    repeated = (times > 1).nonzero()[:, 0]
    if repeated.numel():
        column = int((2 * edge + (sign > 0) == repeated[0]).nonzero()[0])
        raise ValueError(
            "Expected 'edge_index' to have each edge once, or once in each direction (got "
            f"{repeated.numel()} repeated columns, such as {edge_index[:, column].tolist()}). To "
            "fix this, call torch_geometric.utils.coalesce(edge_index, x)."
        )


def read_triangles(triangles: Tensor, device: torch.device, num_nodes: int) -> Tensor:
    """The given triangles, each with its nodes in ascending order."""
    check_tensor("triangles", triangles, "a [3, F] integer tensor")
    is_integer = triangles.dtype in (torch.int64, torch.int32)
    if triangles.dim() != 2 or triangles.size(0) != 3 or not is_integer:
        raise ValueError(
            "Expected 'triangles' to be a [3, F] integer tensor, the nodes of each triangle "
            f"(got {triangles.dtype} of shape {list(triangles.shape)})."
        )
    check_dense("triangles", triangles)
    if triangles.device != device:
        raise ValueError(
            f"Expected 'triangles' to be on the device of 'edge_index', {str(device)!r} (got "
            f"{str(triangles.device)!r})."
        )
    check_node_index("triangles", triangles, num_nodes)
    triangles = triangles.detach().long().sort(0).values
    distinct = torch.unique(triangles, dim=1).size(1) if triangles.numel() else 0
    if distinct < triangles.size(1):
        raise ValueError(
            "Expected 'triangles' to hold each triangle once, in whatever order of its nodes (got "
            f"{triangles.size(1) - distinct} repeated). To fix this, call "
            "torch.unique(triangles.sort(0).values, dim=1)."
        )
    return triangles


def find_edges(edges: Tensor, triangles: Tensor, num_nodes: int) -> Tensor:
    """The numbers [3, F] of the edges (i, j), (i, k), (j, k) of triangles i < j < k.

    Raises:
        ValueError: if one is not among the sorted `edges` [2, M].
    """
    i, j, k = triangles
    key = edges[0] * num_nodes + edges[1]
    wanted = torch.stack([i, i, j]) * num_nodes + torch.stack([j, k, k])
    missing = ~torch.isin(wanted, key)
    if bool(missing.any()):
        alone = missing.any(0).nonzero()[:, 0]
        raise ValueError(
            "Expected 'triangles' whose three edges are in 'edge_index' (got "
            f"{alone.numel()} without, such as {triangles[:, alone[0]].tolist()})."
        )
    return torch.searchsorted(key, wanted)
