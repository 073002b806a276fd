"""The definition, with Python's dictionaries: what every backend is compared with."""

import torch
from torch import Tensor

from jsem_pyg._groups import group_starts
from jsem_pyg.kernels.csr import CSR, SortedEdges, index_dtype


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
        return csr, reverse, None, tensor([slot[edge] for edge in edges])
    if in_order == edges:
        return csr, reverse, None, None
    place = {edge: at for at, edge in enumerate(edges)}
    return csr, reverse, tensor([place[edge] for edge in in_order]), None
