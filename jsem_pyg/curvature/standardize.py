"""Standardisation that a few extreme values, such as the curvature of bridges, do not move."""

import torch
from torch import Tensor

# What makes the two spreads below equal to the standard deviation of a normal distribution.
_MEDIAN_DEVIATION, _MEAN_DEVIATION = 1.4826, 1.2533


def robust_standardize(
    values: Tensor, group: Tensor | None = None, num_groups: int | None = None
) -> Tensor:
    r"""Subtract the median, divide by a robust standard deviation.

    .. math::
        z = \frac{v - \mathrm{med}(v)}{1.4826 \, \mathrm{med} |v - \mathrm{med}(v)|}

    Where more than half of the values are equal, so that this median deviation vanishes, the mean
    absolute deviation times 1.2533 takes its place; where all are equal, the result is zero.
    A spread within the rounding of the values, or of numbers of order one, counts as vanishing.

    Args:
        values: [E] floating-point numbers.
        group: [E] integers; each group is standardised by itself. None means a single group.
        num_groups: the number of groups; the largest + 1 where it is None.

    Returns:
        [E] of the same type, a pure number.

    Source: Iglewicz and Hoaglin, "How to detect and handle outliers", 1993, section 3.3.

    Example:
        >>> robust_standardize(torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0]))
        tensor([-1.3490, -0.6745,  0.0000,  0.6745, 65.4256])
    """
    if values.numel() == 0:
        return values.clone()
    if group is None:
        group = torch.zeros(values.size(0), dtype=torch.int64, device=values.device)
    size = num_groups if num_groups is not None else int(group.max()) + 1
    count = group.bincount(minlength=size)
    centred = values - _median(values, group, count)[group]
    deviation = centred.abs()
    spread = _MEDIAN_DEVIATION * _median(deviation, group, count)
    mean = deviation.new_zeros(size).index_add(0, group, deviation) / count.clamp(min=1)
    largest = values.new_ones(size).scatter_reduce(0, group, values.abs(), "amax")
    rounding = 8 * torch.finfo(values.dtype).eps * largest
    spread = torch.where(spread > rounding, spread, _MEAN_DEVIATION * mean)
    # An infinite spread sends the deviations of a group without one to zero.
    return centred / spread.masked_fill(spread <= rounding, torch.inf)[group]


def _median(values: Tensor, group: Tensor, count: Tensor) -> Tensor:
    """The median of each group, the mean of the two middle values of an even number."""
    order = values.argsort()
    order = order[group[order].argsort(stable=True)]
    ordered = values[order]
    start = count.cumsum(0) - count
    last = values.numel() - 1  # an empty group may begin behind the end; its median is never used
    lower = ordered[(start + (count - 1).clamp(min=0) // 2).clamp(max=last)]
    upper = ordered[(start + count // 2).clamp(max=last)]
    return (lower + upper) / 2
