"""The recurrence, for any way to apply S, and what the passes share."""

from collections.abc import Callable

import torch
from torch import Tensor


def per_row(coefficient: Tensor, group: Tensor | None) -> Tensor:
    """[S, G, C] coefficients of one term -> [S, N or 1, C], ready to multiply [N, M] rows."""
    return coefficient if group is None else coefficient.index_select(1, group)


def chebyshev_recurrence(
    apply_s: Callable[[Tensor], Tensor], x: Tensor, coefficients: Tensor, group: Tensor | None
) -> Tensor:
    """Sum c_k T_k(S) x over k, with T_0 = x, T_1 = S x, T_k = 2 S T_(k-1) - T_(k-2): -> [S, N, M].

    Plain autograd: it stores every term, and may be differentiated as often as `apply_s` may.
    """
    before, term = x, x
    out = per_row(coefficients[0], group) * x
    for k in range(1, coefficients.size(0)):
        applied = apply_s(term)
        before, term = term, applied if k == 1 else 2 * applied - before
        out = torch.addcmul(out, per_row(coefficients[k], group), term)
    return out


def project(grad: Tensor, term: Tensor, coefficients: Tensor, group: Tensor | None) -> Tensor:
    """<G, T_k>, summed over the rows of each group and the columns that share a coefficient."""
    _, _, num_groups, num_channels = coefficients.shape
    if num_channels == 1:
        products = torch.linalg.vecdot(grad, term.unsqueeze(0)).unsqueeze(-1)
    else:
        products = grad * term
    if group is None:
        return products.sum(1, keepdim=True)
    zeros = products.new_zeros(products.size(0), num_groups, num_channels)
    return zeros.index_add(1, group, products)
