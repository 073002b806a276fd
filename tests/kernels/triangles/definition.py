"""The definitions of curvature and of the counts, with Python's sets."""

import math

import torch
from torch import Tensor

from jsem_pyg.kernels.csr import CSR


def triangle_counts(csr: CSR) -> Tensor:
    """For every slot (i, j): the number [nnz] of triangles (i, j, k), int64."""
    near = _near(csr)
    count = [len(near[i] & near[j]) for i, j in zip(*_edges(csr), strict=True)]
    return torch.tensor(count, dtype=torch.int64, device=csr.col.device)


def square_counts(csr: CSR) -> tuple[Tensor, Tensor]:
    """For every slot (i, j): the squares i - k - w - j - i without diagonals, seen from i.

    With c_k = |(N(j) & N(k)) - N(i) - {i}| for the neighbours k of i that are neither j nor
    neighbours of j: how many c_k are positive, and the largest of them (Topping et al. 2022,
    Definition 4), [nnz] each. Both are zero where an end has degree one.
    """
    near = _near(csr)
    found = torch.zeros(2, csr.col.numel(), dtype=torch.int64, device=csr.col.device)
    for slot, (i, j) in enumerate(zip(*_edges(csr), strict=True)):
        c = [len((near[j] & near[k]) - near[i] - {i}) for k in near[i] - near[j] - {j}]
        found[0, slot] = sum(each > 0 for each in c)
        found[1, slot] = max(c, default=0)
    return found[0], found[1]


def forman(csr: CSR, weight: Tensor, with_triangles: bool) -> Tensor:
    """For every slot: F_1d or F_aug, adding up only what counts."""
    near = [
        dict(zip(columns.tolist(), values.tolist(), strict=True))
        for columns, values in zip(
            csr.col.split(csr.rowptr.diff().tolist()),
            weight.split(csr.rowptr.diff().tolist()),
            strict=True,
        )
    ]
    curvature = []
    for i, j in zip(*_edges(csr), strict=True):
        common = near[i].keys() & near[j].keys() if with_triangles else set()
        apart = [w for k, w in near[i].items() if k != j and k not in common]
        apart += [w for k, w in near[j].items() if k != i and k not in common]
        faces = near[i][j] ** 2 * len(common)
        curvature.append(2 + faces - sum(math.sqrt(near[i][j] / w) for w in apart))
    return torch.tensor(curvature, dtype=torch.float64)


def _edges(csr: CSR) -> tuple[list[int], list[int]]:
    return csr.row.tolist(), csr.col.tolist()


def _near(csr: CSR) -> list[set[int]]:
    return [set(row.tolist()) for row in csr.col.split(csr.rowptr.diff().tolist())]
