"""Edge weights as curvature uses them."""

import torch
from torch import Tensor

from ..._checks import SYMMETRY_RTOL
from ..csr import CSR


def mean_weight(csr: CSR, reverse: Tensor, weight: Tensor | None) -> Tensor | None:
    """The means [nnz] of both directions, in float64; ones without any weights.

    None unless all are positive, finite and the same in both directions but for rounding.
    """
    if weight is None:
        return torch.ones_like(csr.col, dtype=torch.float64)
    here = weight.detach().to(csr.col.device, torch.float64)
    there = here[reverse]
    tolerance = SYMMETRY_RTOL * here
    is_good = (here > 0) & here.isfinite() & ((here - there).abs() <= tolerance)
    return here / 2 + there / 2 if bool(is_good.all()) else None
