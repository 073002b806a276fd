"""The recurrence, for any way to apply S, and what the passes share."""

from collections.abc import Callable

import torch
from torch import Tensor

_FEW = 4  # groups, whose sums are taken one by one


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
    return group_sums(products, group, num_groups)


def group_sums(products: Tensor, group: Tensor | None, num_groups: int) -> Tensor:
    """[S, N, C] -> [S, G, C], the sums over the rows of each group.

    Few sums of many rows are not left to `index_add`, whose threads would wait for one another on a
    GPU, and whose order of additions is another there every time.
    """
    if group is None:
        return products.sum(1, keepdim=True)
    if 0 < num_groups <= _FEW:
        zero = products.new_zeros(())
        parts = [
            torch.where((group == each).unsqueeze(-1), products, zero).sum(1)
            for each in range(num_groups)
        ]
        return torch.stack(parts, 1)
    if num_groups and products.is_cuda and products.size(-1) == 1:
        return sorted_sums(products, group, num_groups)
    zeros = products.new_zeros(products.size(0), num_groups, products.size(-1))
    return zeros.index_add(1, group, products)


def sorted_sums(products: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """The same [S, N, 1] -> [S, G, 1], by rows that are sorted by their groups."""
    length = torch.zeros(num_groups, dtype=torch.int64, device=group.device)
    length = length.index_add(0, group.long(), torch.ones_like(group, dtype=torch.int64))
    rows = products.squeeze(-1).index_select(1, group.argsort(stable=True)).flatten()
    sums = torch.segment_reduce(rows, "sum", lengths=length.repeat(products.size(0)), unsafe=True)
    return sums.view(products.size(0), num_groups, 1)
