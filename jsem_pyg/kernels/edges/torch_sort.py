"""Sorting by a key, in plain torch, on any device."""

import torch
from torch import Tensor

from ..._groups import group_starts
from ..csr import CSR, index_dtype
from .sorted_edges import SortedEdges


def sort_edges(row: Tensor, col: Tensor, num_nodes: int) -> SortedEdges | None:
    """Sort edges; see the package.

    The order by column, then row, is that of the reversed edges if these are the same edges.
    """
    row, col = row.long(), col.long()
    low, high = torch.minimum(row, col), torch.maximum(row, col)
    if bool(((low < 0) | (high >= num_nodes) | (low == high)).any()):
        return None
    narrow = index_dtype(num_nodes, row.numel())
    key, order, slot = row * num_nodes + col, None, None
    if bool((key[1:] <= key[:-1]).any()):
        key, order = key.sort(stable=True)
        if bool((key[1:] == key[:-1]).any()):
            key, position = torch.unique_consecutive(key, return_inverse=True)
            slot, order = torch.empty_like(order).scatter_(0, order, position), None
        row, col = key // max(num_nodes, 1), key % max(num_nodes, 1)
    reverse = col.argsort(stable=True)
    if not (torch.equal(row[reverse], col) and torch.equal(col[reverse], row)):
        return None
    csr = CSR(group_starts(row, num_nodes), col.to(narrow))
    return SortedEdges(
        csr,
        reverse.to(narrow),
        None if order is None else order.to(narrow),
        None if slot is None else slot.to(narrow),
    )
