"""The definitions, with Python's sets: what every other backend is compared with."""

import torch
from torch import Tensor

from ..csr import CSR


def reverse_slots(csr: CSR) -> Tensor | None:
    """The slot [nnz] of (j, i) for every slot (i, j), or None if the pattern is not symmetric."""
    slot = {pair: at for at, pair in enumerate(zip(*_edges(csr), strict=True))}
    reverse = [slot.get((j, i), -1) for i, j in slot]
    return None if -1 in reverse else torch.tensor(reverse, device=csr.col.device).long()


def triangle_sums(csr: CSR, reverse: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """For every slot (i, j): the number of triangles (i, j, k), and a sum over their other sides.

    Args:
        csr: the pattern.
        reverse: [nnz] from :func:`reverse_slots`.
        values: [nnz] a positive number on every slot, alike in both directions.

    Returns:
        The counts [nnz] (int64), and the sums [nnz] (float64) of values_ik + values_jk over the
        triangles.
    """
    side = [dict(zip(*pair, strict=True)) for pair in _rows(csr, values)]
    count, total = [], []
    for i, j in zip(*_edges(csr), strict=True):
        common = side[i].keys() & side[j].keys()
        count.append(len(common))
        total.append(sum(side[i][k] + side[j][k] for k in common))
    device = csr.col.device
    return (
        torch.tensor(count, dtype=torch.int64, device=device),
        torch.tensor(total, dtype=torch.float64, device=device),
    )


def square_counts(csr: CSR) -> tuple[Tensor, Tensor]:
    """For every slot (i, j): the squares i - k - w - j - i without diagonals, seen from i.

    With c_k = |(N(j) & N(k)) - N(i) - {i}| for the neighbours k of i that are neither j nor
    neighbours of j: how many c_k are positive, and the largest of them (Topping et al. 2022,
    Definition 4). Both are zero where an end has degree one.

    Args:
        csr: the pattern.

    Returns:
        The counts [nnz] and the largest c_k [nnz] (int64).
    """
    near = [set(row) for row, _ in _rows(csr, csr.col)]
    found = torch.zeros(2, csr.col.numel(), dtype=torch.int64, device=csr.col.device)
    for slot, (i, j) in enumerate(zip(*_edges(csr), strict=True)):
        c = [len((near[j] & near[k]) - near[i] - {i}) for k in near[i] - near[j] - {j}]
        found[0, slot] = sum(each > 0 for each in c)
        found[1, slot] = max(c, default=0)
    return found[0], found[1]


def _edges(csr: CSR) -> tuple[list[int], list[int]]:
    return csr.row.tolist(), csr.col.tolist()


def _rows(csr: CSR, values: Tensor) -> list[tuple[list[int], list[float]]]:
    """The columns and values of each row."""
    length = csr.rowptr.diff().tolist()
    columns, parts = csr.col.split(length), values.split(length)
    return [(c.tolist(), v.tolist()) for c, v in zip(columns, parts, strict=True)]
