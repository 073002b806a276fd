"""From a list of edges to a sorted pattern, with the slot of the reverse of every edge."""

import torch
from torch import Tensor

from ..._groups import group_starts
from ..csr import CSR, SortedEdges, index_dtype


def sort_edges(row: Tensor, col: Tensor, num_nodes: int) -> SortedEdges | None:
    """Sort the edges of an undirected graph, merge equal ones, and find the reverse of each.

    On a CPU by counting, in numba; elsewhere by a key. None stands for an index outside [0, N), a
    self-loop, or an edge that has no reverse.
    """
    if row.device.type != "cpu":
        return sort_by_key(row, col, num_nodes)
    from .numba_count import sort_by_counting

    return sort_by_counting(row, col, num_nodes)


def sort_by_key(row: Tensor, col: Tensor, num_nodes: int) -> SortedEdges | None:
    """Sort edges by a key, in plain torch, on any device.

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
            slot, order = torch.empty_like(order).scatter_(0, order, position).to(narrow), None
        row, col = key // max(num_nodes, 1), key % max(num_nodes, 1)
    reverse = col.argsort(stable=True)
    if not (torch.equal(row[reverse], col) and torch.equal(col[reverse], row)):
        return None
    csr = CSR(group_starts(row, num_nodes), col.to(narrow))
    return csr, reverse.to(narrow), None if order is None else order.to(narrow), slot
