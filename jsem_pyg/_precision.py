"""Rows of numbers, normalised without over- or underflow."""

import torch
import torch.nn.functional as F
from torch import Tensor

OFFSET = 1.5  # of a constant column, in mean lengths; chosen on digits and AG News


def unit_rows(x: Tensor) -> Tensor:
    """Scale rows [..., D] to length one, however long they are; a row of zeros stays zero.

    Example:
        >>> unit_rows(torch.tensor([[3e-30, 4e-30], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    if x.size(-1) == 0:
        return x
    # By a power of two near the largest entry first, which is exact: no square over- or underflows.
    largest = x.detach().abs().amax(-1, keepdim=True)
    unit = torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent - 1)
    return F.normalize(x / unit, dim=-1)


def normalize_rows(p: Tensor) -> Tensor:
    """Rows [..., C] >= 0 that sum to one; a row of zeros becomes 1 / C everywhere."""
    total = p.sum(-1, keepdim=True)
    return torch.where(total > 0, p / total.clamp(min=torch.finfo(p.dtype).tiny), 1 / p.size(-1))


def lengths(x: Tensor) -> Tensor:
    """Return the lengths [N, 1] of rows [N, D], of which no square over- or underflows."""
    return (x * unit_rows(x)).sum(-1, keepdim=True)


def affine_rows(x: Tensor, length: Tensor) -> Tensor:
    """Rows x [N, D] beside a constant of 1.5 times a length, of length one together: [N, D + 1].

    A linear classifier of them has any hyperplane of x as its boundary, not only those through 0.
    """
    return unit_rows(torch.cat([x, (OFFSET * length).expand(len(x), 1)], dim=1))


def center_and_normalize(x: Tensor) -> Tensor:
    """Rows [N, D] less their mean, of length one; a row at the mean stays zero."""
    return unit_rows(x - x.mean(0))
