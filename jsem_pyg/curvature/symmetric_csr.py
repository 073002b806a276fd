"""The graph as curvature needs it, undirected, simple and sorted, or an error with its fix."""

from typing import NoReturn

import torch
from torch import Tensor

from .._checks import (
    check_edge_index_shape,
    check_edge_vector,
    check_finite,
    check_node_index,
    check_symmetric,
)
from ..kernels.csr import SymmetricCSR
from ..kernels.triangles import TriangleKernels, find_kernels


def symmetric_csr(
    edge_index: Tensor, num_nodes: int | None = None, kernels: TriangleKernels | None = None
) -> SymmetricCSR:
    """Sort and check the edges of an undirected graph.

    Args:
        edge_index: [2, E] both directions of every edge once, in any order, no self-loops.
        num_nodes: N; the largest index + 1 where it is None.
        kernels: what finds the reverse of each edge; None: the fastest on the device.

    Raises:
        TypeError: if `edge_index` is not a tensor.
        ValueError: if it is not an integer tensor of shape [2, E] with entries in [0, N), or holds
            self-loops, repeated edges, or edges without their reverse.
    """
    check_edge_index_shape(edge_index)
    if num_nodes is None:
        num_nodes = int(edge_index.max()) + 1 if edge_index.numel() else 0
    row, col = edge_index.detach().long()
    kernels = kernels or find_kernels("auto", edge_index.device)
    found = kernels.read_edges(row, col, num_nodes)
    if found is None:
        _refuse(row, col, num_nodes)
    return found


def symmetric_values(graph: SymmetricCSR, name: str, values: Tensor) -> Tensor:
    """The means [E] of both directions, in float64, in the slots, of `values` [E] of the columns.

    Raises:
        TypeError: if `values` is not a floating-point tensor.
        ValueError: if its shape does not fit, or values are not finite, or not the same in both
            directions.
    """
    check_edge_vector(name, values, graph.reverse.numel())
    check_finite(name, values)
    slots = graph.to_slots(values.detach().to(graph.reverse.device, torch.float64))
    backward = slots[graph.reverse]
    if torch.equal(slots, backward):
        return slots
    check_symmetric(name, slots, backward)
    return (slots + backward) / 2


def _refuse(row: Tensor, col: Tensor, num_nodes: int) -> NoReturn:
    """Say what is wrong with the edges, the first of these."""
    check_node_index("edge_index", torch.stack([row, col]), num_nodes)
    loops = int((row == col).sum())
    if loops:
        raise ValueError(
            f"Expected 'edge_index' without self-loops (got {loops}). To fix this, call "
            "torch_geometric.utils.remove_self_loops(edge_index, edge_weight)."
        )
    key = row * num_nodes + col
    repeated = key.numel() - key.unique().numel()
    if repeated:
        raise ValueError(
            f"Expected 'edge_index' without repeated edges (got {repeated}). To fix this, call "
            "torch_geometric.utils.coalesce(edge_index, edge_weight)."
        )
    alone = (~torch.isin(key, col * num_nodes + row)).nonzero()[:, 0]
    i, j = int(row[alone[0]]), int(col[alone[0]])
    raise ValueError(
        "Expected 'edge_index' to be undirected, each edge in both directions (got "
        f"{alone.numel()} edges without their reverse, such as {i} -> {j}). To fix this, call "
        "torch_geometric.utils.to_undirected(edge_index, edge_weight, reduce='mean')."
    )
