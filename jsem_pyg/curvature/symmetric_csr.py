"""The graph as curvature needs it, undirected, simple and sorted, or an error with its fix."""

from typing import NamedTuple, NoReturn

import torch
from torch import Tensor
from torch_geometric.utils.sparse import index2ptr

from .._checks import (
    check_edge_index_shape,
    check_edge_vector,
    check_finite,
    check_node_index,
    check_symmetric,
)
from ..kernels.csr import CSR
from ..kernels.triangles import TriangleKernels, find_kernels

_TO_UNDIRECTED = (
    "To fix this, call torch_geometric.utils.to_undirected(edge_index, edge_weight, reduce='mean')."
)


class SymmetricCSR(NamedTuple):
    """A simple undirected graph, both directions of every edge, sorted by row, then column."""

    csr: CSR
    reverse: Tensor  # [E] the slot of (j, i) for the slot of (i, j)
    order: Tensor | None  # [E] the column of `edge_index` in each slot; None: they are in order

    def to_slots(self, values: Tensor) -> Tensor:
        """[E] values of the columns -> [E] in the slots."""
        return values if self.order is None else values[self.order]

    @property
    def degree(self) -> Tensor:
        """[N] the number of neighbours."""
        return self.csr.rowptr.diff()

    def to_edges(self, slots: Tensor) -> Tensor:
        """[E] values in the slots -> [E] of the columns."""
        return (
            slots if self.order is None else torch.empty_like(slots).scatter_(0, self.order, slots)
        )


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
    check_node_index("edge_index", edge_index, num_nodes)
    row, col = edge_index.detach().long()
    _check_simple(row, col)
    key, order = row * num_nodes + col, None
    if bool((key[1:] < key[:-1]).any()):
        key, order = key.sort()
        row, col = row[order], col[order]
    _check_unrepeated(key)
    csr = CSR(index2ptr(row, num_nodes), row, col.contiguous())
    kernels = kernels or find_kernels("auto", edge_index.device)
    reverse = kernels.reverse_slots(csr)
    if reverse is None:
        _refuse_directed(key, csr)
    return SymmetricCSR(csr, reverse, order)


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


def _check_simple(source: Tensor, target: Tensor) -> None:
    loops = int((source == target).sum())
    if loops:
        raise ValueError(
            f"Expected 'edge_index' without self-loops (got {loops}). To fix this, call "
            "torch_geometric.utils.remove_self_loops(edge_index, edge_weight)."
        )


def _check_unrepeated(key: Tensor) -> None:
    repeated = int((key[1:] == key[:-1]).sum())
    if repeated:
        raise ValueError(
            f"Expected 'edge_index' without repeated edges (got {repeated}). To fix this, call "
            "torch_geometric.utils.coalesce(edge_index, edge_weight)."
        )


def _refuse_directed(key: Tensor, csr: CSR) -> NoReturn:
    alone = (~torch.isin(key, csr.col * csr.num_nodes + csr.row)).nonzero()[:, 0]
    i, j = int(csr.row[alone[0]]), int(csr.col[alone[0]])
    raise ValueError(
        "Expected 'edge_index' to be undirected, each edge in both directions (got "
        f"{alone.numel()} edges without their reverse, such as {i} -> {j}). {_TO_UNDIRECTED}"
    )
