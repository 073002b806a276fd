"""The definition of the curvature, edge by edge, with Python's sets.

It adds up only what counts, so that nothing cancels: for weights that are very far apart.
"""

import math

import torch
from torch import Tensor

from ..._checks import SYMMETRY_RTOL
from ..csr import CSR


def forman(csr: CSR, reverse: Tensor, weight: Tensor | None, with_triangles: bool) -> Tensor | None:
    """Compute what `forman` of the package does."""
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


def _edges(csr: CSR) -> tuple[list[int], list[int]]:
    return csr.row.tolist(), csr.col.tolist()


def _rows(csr: CSR, values: Tensor) -> list[tuple[list[int], list[float]]]:
    """The columns and values of each row."""
    length = csr.rowptr.diff().tolist()
    columns, parts = csr.col.split(length), values.split(length)
    return [(c.tolist(), v.tolist()) for c, v in zip(columns, parts, strict=True)]
