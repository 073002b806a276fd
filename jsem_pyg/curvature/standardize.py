"""Standardisation that a few extreme values, such as the curvature of bridges, do not move."""

import torch
from torch import Tensor

from .._checks import check_dense, check_float, check_labels, check_signal_range

# What makes the two spreads below equal to the standard deviation of a normal distribution.
_MEDIAN_DEVIATION, _MEAN_DEVIATION = 1.4826, 1.2533


def robust_standardize(values: Tensor, group: Tensor | None = None) -> Tensor:
    r"""Subtract the median, divide by a robust standard deviation.

    .. math::
        z = \frac{v - \mathrm{med}(v)}{1.4826 \, \mathrm{med} |v - \mathrm{med}(v)|}

    If more than half of the values are equal, so that this median deviation vanishes, the mean
    absolute deviation times 1.2533 takes its place; if all are equal, the result is zero. One
    within the rounding of the values, or of numbers of order one, counts as vanishing.

    Args:
        values: [E] floating-point numbers.
        group: [E] integers; each group is standardised by itself. None means a single group.

    Returns:
        [E] of the same type, a pure number.

    Source: Iglewicz and Hoaglin, "How to detect and handle outliers", 1993, section 3.3.

    Example:
        >>> robust_standardize(torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0]))
        tensor([-1.3490, -0.6745,  0.0000,  0.6745, 65.4256])
    """
    check_float("values", values)
    check_dense("values", values)
    if values.dim() != 1:
        raise ValueError(f"Expected 'values' to have shape [E] (got {list(values.shape)}).")
    check_signal_range("values", values.double())
    if group is None:
        group = torch.zeros_like(values, dtype=torch.int64)
    check_labels("group", group, values.numel())
    result = torch.empty_like(values)
    for number in group.unique():
        of_group = group == number
        median, spread = _median_and_spread(values[of_group])
        result[of_group] = ((values[of_group].double() - median) / spread).to(values.dtype)
    return result


def _median_and_spread(values: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the median and the robust standard deviation, in float64.

    A spread that vanishes is infinite. The rounding of the type of `values` counts as none.
    """
    numbers = values.double()
    median = _median(numbers)
    deviation = (numbers - median).abs()
    rounding = 8 * torch.finfo(values.dtype).eps * numbers.abs().max().clamp(min=1)
    spread = _MEDIAN_DEVIATION * _median(deviation)
    spread = torch.where(spread > rounding, spread, _MEAN_DEVIATION * deviation.mean())
    return median, spread.masked_fill(spread <= rounding, torch.inf)


def _median(values: Tensor) -> Tensor:
    """Compute the median: the middle value, or the mean of the two middle ones."""
    ordered, last = values.sort().values, values.numel() - 1
    return (ordered[last // 2] + ordered[(last + 1) // 2]) / 2
