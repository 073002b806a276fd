"""The definitions, with Python's sets: what every other backend is compared with."""

import math

import torch
from torch import Tensor

from ..._checks import SYMMETRY_RTOL
from ..csr import CSR


def triangle_counts(csr: CSR, reverse: Tensor) -> Tensor:
    """For every slot (i, j): the number [nnz] of triangles (i, j, k), int64."""
    near = [set(row) for row, _ in _rows(csr, csr.col)]
    count = [len(near[i] & near[j]) for i, j in zip(*_edges(csr), strict=True)]
    return torch.tensor(count, dtype=torch.int64, device=csr.col.device)


def forman(csr: CSR, reverse: Tensor, weight: Tensor | None, with_triangles: bool) -> Tensor | None:
    """The curvature F_1d or, with triangles, F_aug of :func:`~jsem_pyg.curvature.forman_curvature`.

    [nnz] float64, for the means of the weights [nnz] (None: ones) in both directions; None unless
    these are positive, finite and, except for rounding, the same.
    """
    weight = mean_weight(csr, reverse, weight)
    if weight is None:
        return None
    side = [dict(zip(*pair, strict=True)) for pair in _rows(csr, weight)]
    curvature = []
    for i, j in zip(*_edges(csr), strict=True):
        common = side[i].keys() & side[j].keys() if with_triangles else set()
        apart = [w for k, w in side[i].items() if k != j and k not in common]
        apart += [w for k, w in side[j].items() if k != i and k not in common]
        faces = side[i][j] * side[i][j] * len(common) if common else 0.0
        curvature.append(2 + faces - sum(math.sqrt(side[i][j] / w) for w in apart))
    return torch.tensor(curvature, dtype=torch.float64, device=csr.col.device)


def mean_weight(csr: CSR, reverse: Tensor, weight: Tensor | None) -> Tensor | None:
    """The means [nnz] of both directions, in float64; ones without any weights.

    None unless all are positive, finite and, except for rounding, the same in both directions.
    """
    if weight is None:
        return torch.ones_like(csr.col, dtype=torch.float64)
    here = weight.detach().to(csr.col.device, torch.float64)
    there = here[reverse]
    is_good = (here > 0) & here.isfinite() & ((here - there).abs() <= SYMMETRY_RTOL * here)
    return here / 2 + there / 2 if bool(is_good.all()) else None


def square_counts(csr: CSR) -> tuple[Tensor, Tensor]:
    """For every slot (i, j): the squares i - k - w - j - i without diagonals, seen from i.

    With c_k = |(N(j) & N(k)) - N(i) - {i}| for the neighbours k of i that are neither j nor
    neighbours of j: how many c_k are positive, and the largest of them (Topping et al. 2022,
    Definition 4), [nnz] each. Both are zero where an end has degree one.
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
