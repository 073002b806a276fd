"""The graph as curvature needs it, undirected, simple and sorted, or an error with its fix."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .._checks import check_edge_index_shape, check_edge_weight, check_node_index
from ..kernels.triangles import reverse_slots

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# How far w_ij and w_ji may differ before they count as different: relative to the entry, and to the
# largest entry. Rounding passes, real asymmetry does not.
_SYMMETRY_RTOL, _SYMMETRY_ATOL = 1e-4, 1e-5

_TO_UNDIRECTED = (
    "To fix this, call torch_geometric.utils.to_undirected(edge_index, edge_weight, reduce='mean')."
)


class SymmetricCSR(NamedTuple):
    """A simple undirected graph, both directions of every edge, sorted by row, then column."""

    rowptr: IntArray  # [N + 1] where each row begins
    row: IntArray  # [E]
    col: IntArray  # [E]
    reverse: IntArray  # [E] the slot of (j, i) for the slot of (i, j)
    slot: IntArray  # [E] the slot of every column of the `edge_index` it was made from


def symmetric_csr(edge_index: Tensor, num_nodes: int | None = None) -> SymmetricCSR:
    """Sort and check the edges of an undirected graph.

    Args:
        edge_index: [2, E] both directions of every edge once, in any order, no self-loops.
        num_nodes: N; the largest index + 1 where it is None.

    Raises:
        TypeError: if `edge_index` is not a tensor.
        ValueError: if it is not an integer tensor of shape [2, E] with entries in [0, N), or holds
            self-loops, repeated edges, or edges without their reverse.
    """
    check_edge_index_shape(edge_index)
    if num_nodes is None:
        num_nodes = int(edge_index.max()) + 1 if edge_index.numel() else 0
    check_node_index("edge_index", edge_index, num_nodes)
    source, target = edge_index.detach().cpu().long().numpy()
    _check_simple(source, target)
    order = np.lexsort((target, source))
    row, col = source[order], target[order]
    _check_unrepeated(row, col)
    reverse = reverse_slots(col)
    _check_undirected(row, col, reverse)
    slot = np.empty_like(order)
    slot[order] = np.arange(order.size)
    rowptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=num_nodes))])
    return SymmetricCSR(rowptr, row, col, reverse, slot)


def symmetric_weight(graph: SymmetricCSR, edge_weight: Tensor) -> FloatArray:
    """Check the weights [E] of the columns and bring them, in float64, into the slots [E].

    Raises:
        TypeError: if `edge_weight` is not a floating-point tensor.
        ValueError: if its shape does not fit, or weights are not finite, not positive, or not the
            same in both directions.
    """
    check_edge_weight(edge_weight, graph.slot.size)
    weight = np.empty(graph.slot.size)
    weight[graph.slot] = edge_weight.detach().cpu().double().numpy()
    zeros = int((weight == 0).sum())
    if zeros:
        raise ValueError(
            f"Expected 'edge_weight' to be positive, because this curvature divides by it (got "
            f"{zeros} zeros of {weight.size}). To fix this, drop these edges or raise their weight."
        )
    backward = weight[graph.reverse]
    difference = np.abs(weight - backward)
    limit = _SYMMETRY_RTOL * weight + _SYMMETRY_ATOL * weight.max(initial=0)
    uneven = int((difference > limit).sum())
    if uneven:
        raise ValueError(
            "Expected 'edge_weight' to be the same in both directions of an edge (got "
            f"{uneven} entries that differ, by up to {difference.max():.3g}). {_TO_UNDIRECTED}"
        )
    return (weight + backward) / 2


def _check_simple(source: IntArray, target: IntArray) -> None:
    loops = int((source == target).sum())
    if loops:
        raise ValueError(
            f"Expected 'edge_index' without self-loops (got {loops}). To fix this, call "
            "torch_geometric.utils.remove_self_loops(edge_index, edge_weight)."
        )


def _check_unrepeated(row: IntArray, col: IntArray) -> None:
    repeated = int(((np.diff(row) == 0) & (np.diff(col) == 0)).sum())
    if repeated:
        raise ValueError(
            f"Expected 'edge_index' without repeated edges (got {repeated}). To fix this, call "
            "torch_geometric.utils.coalesce(edge_index, edge_weight)."
        )


def _check_undirected(row: IntArray, col: IntArray, reverse: IntArray) -> None:
    # The order by column, then row, is that of the reversed edges if these are the same edges.
    if np.array_equal(row[reverse], col) and np.array_equal(col[reverse], row):
        return
    size = int(max(row.max(), col.max())) + 1
    alone = np.flatnonzero(~np.isin(row * size + col, col * size + row))
    i, j = row[alone[0]], col[alone[0]]
    raise ValueError(
        "Expected 'edge_index' to be undirected, each edge in both directions (got "
        f"{alone.size} edges without their reverse, such as {i} -> {j}). {_TO_UNDIRECTED}"
    )
