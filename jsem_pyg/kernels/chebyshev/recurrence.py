"""The recurrence, for any way to apply S, and what the passes share."""

from collections.abc import Callable

import torch
from torch import Tensor


def chebyshev_recurrence(
    apply_s: Callable[[Tensor], Tensor], x: Tensor, coefficients: Tensor
) -> Tensor:
    """Sum c_k T_k(S) x over k, with T_0 = x, T_1 = S x, T_k = 2 S T_(k-1) - T_(k-2): -> [S, N, M].

    Plain autograd: it stores every term, and may be differentiated as often as `apply_s` may.
    """
    rows = coefficients.unsqueeze(2)  # [K + 1, S, 1, C], to multiply rows
    before, term = x, x
    out = rows[0] * x
    for k in range(1, len(rows)):
        applied = apply_s(term)
        before, term = term, applied if k == 1 else 2 * applied - before
        out = torch.addcmul(out, rows[k], term)
    return out


def project(grad: Tensor, term: Tensor, num_channels: int) -> Tensor:
    """Compute <G, T_k> [S, C]: summed over the rows, and over the columns where C is 1."""
    if num_channels == 1:
        return torch.linalg.vecdot(grad, term.unsqueeze(0)).sum(1, keepdim=True)
    return (grad * term).sum(1)
