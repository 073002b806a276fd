"""Reads every form of graph that PyG has into one: rows, columns and weights.

The rows of an `edge_index` are the sources of messages. The sparse forms follow PyG's convention:
they hold the *transposed* adjacency, so that their rows are the targets. Their entries are the
edges, in their own (row-major or column-major) order; so this is also the order that `edge_attr`
has to follow.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.typing import SparseTensor

from .._checks import check_edge_index_shape


class Adjacency(NamedTuple):
    """The graph that a user passed, not yet checked for symmetry."""

    row: Tensor  # [E]
    col: Tensor  # [E]
    weight: Tensor | None  # [E], where the form carries values
    identity: tuple[Tensor, ...]  # the index tensors that identify this graph
    rows_are_targets: bool

    def ends(self) -> tuple[Tensor, Tensor]:
        """Return the target [E] and the source [E] of every edge."""
        return (self.row, self.col) if self.rows_are_targets else (self.col, self.row)


def read_adjacency(
    edge_index: Any, num_nodes: int | tuple[int, int], name: str = "edge_index"
) -> Adjacency:
    """Read an `edge_index` [2, E], or an N x N sparse matrix whose rows are targets.

    Of two node types, `num_nodes` are the targets and the sources.
    """
    if isinstance(edge_index, Adjacency):  # is read already
        return edge_index
    shape = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
    if isinstance(edge_index, SparseTensor):
        _check_size(tuple(edge_index.sizes()), shape, name)
        row, col = edge_index.storage.row(), edge_index.storage.col()
        return Adjacency(row, col, edge_index.storage.value(), (row, col), True)
    if isinstance(edge_index, EdgeIndex):
        edge_index = edge_index.as_tensor()
    if isinstance(edge_index, Tensor) and edge_index.layout != torch.strided:
        return _read_torch_sparse(edge_index, shape, name)
    check_edge_index_shape(edge_index, name)
    return Adjacency(edge_index[0], edge_index[1], None, (edge_index,), False)


def _read_torch_sparse(matrix: Tensor, shape: tuple[int, int], name: str) -> Adjacency:
    _check_size(tuple(matrix.shape), shape, name)
    if matrix.layout == torch.sparse_coo:
        matrix = matrix.coalesce()
        indices = matrix.indices()
        return Adjacency(indices[0], indices[1], matrix.values(), (indices,), True)
    if matrix.layout == torch.sparse_csr:
        pointer, index = matrix.crow_indices(), matrix.col_indices()
        row = _expand(pointer, index)
        return Adjacency(row, index, matrix.values(), (pointer, index), True)
    if matrix.layout == torch.sparse_csc:
        pointer, index = matrix.ccol_indices(), matrix.row_indices()
        col = _expand(pointer, index)
        return Adjacency(index, col, matrix.values(), (pointer, index), True)
    raise ValueError(
        f"Expected a sparse '{name}' to have the layout torch.sparse_coo, torch.sparse_csr or "
        f"torch.sparse_csc (got {matrix.layout})."
    )


def check_entry_order(edge_index: Any) -> None:
    """Raise a ValueError for a COO tensor whose entries are not sorted, or repeated.

    Features in the order of its entries would be read in another.
    """
    if not isinstance(edge_index, Tensor) or edge_index.layout != torch.sparse_coo:
        return
    matrix = edge_index.detach()
    if not matrix.is_coalesced() and not torch.equal(
        matrix._indices(), matrix.coalesce().indices()
    ):
        raise ValueError(
            "Expected a sparse 'edge_index' with 'edge_attr' to be coalesced (got entries that "
            "are repeated or not sorted, in whose order features cannot be read). To fix this, "
            "call edge_index.coalesce() and order 'edge_attr' by its entries, or pass an "
            "'edge_index' [2, E]."
        )


def _expand(pointer: Tensor, index: Tensor) -> Tensor:
    """Expand compressed pointers [N + 1] to a row (or column) number for each entry of `index`."""
    rows = torch.arange(pointer.numel() - 1, device=pointer.device)
    # Without the size, a GPU would have to wait for the sum of the counts.
    return rows.repeat_interleave(pointer.diff(), output_size=index.numel())


def _check_size(given: tuple[int, ...], shape: tuple[int, int], name: str) -> None:
    if given != shape:
        raise ValueError(
            f"Expected a sparse '{name}' of shape {list(shape)}, as many rows as there are targets "
            f"and columns as there are sources among the nodes of 'x' (got {list(given)})."
        )
