"""The definition, with Python's dictionaries: what every other backend is compared with."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..._groups import group_starts
from ..csr import CSR, index_dtype


class SortedEdges(NamedTuple):
    """An undirected graph without self-loops, both directions of every edge, as a pattern.

    Index tensors are int32 if that is wide enough.
    """

    csr: CSR  # a slot for every distinct directed edge
    reverse: Tensor  # [nnz] the slot of (j, i) for the slot of (i, j)
    # [E] the edge of the list in each slot; None: they are in order, or some slot has several
    order: Tensor | None
    # [E] the slot of each edge of the list, if some slot has several; else None
    slot: Tensor | None


def sort_edges(row: Tensor, col: Tensor, num_nodes: int) -> SortedEdges | None:
    """Sort the edges (row, col) of an undirected graph, merge equal ones, find the reverse of each.

    None for an index outside [0, N), a self-loop, or an edge that has no reverse.
    """
    edges = list(zip(row.tolist(), col.tolist(), strict=True))
    in_order = sorted(set(edges))
    slot = {edge: at for at, edge in enumerate(in_order)}
    is_inside = all(0 <= i < num_nodes and 0 <= j < num_nodes and i != j for i, j in edges)
    if not is_inside or any((j, i) not in slot for i, j in in_order):
        return None

    def tensor(numbers: list[int]) -> Tensor:
        return torch.tensor(numbers, dtype=index_dtype(num_nodes, len(edges)), device=row.device)

    rows = torch.tensor([i for i, _ in in_order], dtype=torch.int64, device=row.device)
    csr = CSR(group_starts(rows, num_nodes), tensor([j for _, j in in_order]))
    reverse = tensor([slot[j, i] for i, j in in_order])
    if len(in_order) < len(edges):
        return SortedEdges(csr, reverse, None, tensor([slot[edge] for edge in edges]))
    if in_order == edges:
        return SortedEdges(csr, reverse, None, None)
    place = {edge: at for at, edge in enumerate(edges)}
    return SortedEdges(csr, reverse, tensor([place[edge] for edge in in_order]), None)
