"""Standardisation that a few extreme values, such as the curvature of bridges, do not move."""

from typing import Self

import torch
from torch import Tensor

from .._checks import check_dense, check_float, check_labels, check_signal_range
from .._groups import group_order, group_starts

# What makes the two spreads below equal to the standard deviation of a normal distribution.
_MEDIAN_DEVIATION, _MEAN_DEVIATION = 1.4826, 1.2533


def robust_standardize(values: Tensor, group: Tensor | None = None) -> Tensor:
    r"""Subtract the median, divide by a robust standard deviation.

    .. math::
        z = \frac{v - \mathrm{med}(v)}{1.4826 \, \mathrm{med} |v - \mathrm{med}(v)|}

    If more than half of the values are equal, so that this median deviation vanishes, the mean
    absolute deviation times 1.2533 takes its place; if all are equal, the result is zero. A spread
    within the rounding of the values, or of numbers of order one, counts as vanishing.

    Args:
        values: [E] floating-point numbers.
        group: [E] integers >= 0; each group is standardised by itself. None means a single group.

    Returns:
        [E] of the same type, a pure number.

    Raises:
        TypeError: if `values` is not a floating-point tensor, or `group` not one of integers.
        ValueError: if `values` holds NaN or infinite values, or the groups do not fit.

    Source: Iglewicz and Hoaglin, "How to detect and handle outliers", 1993, section 3.3.

    Example:
        >>> robust_standardize(torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0]))
        tensor([-1.3490, -0.6745,  0.0000,  0.6745, 65.4256])
    """
    _check_values(values, dims=(1,))
    if group is None:
        group = torch.zeros_like(values, dtype=torch.int64)
    check_labels("group", group, values.numel())
    if values.numel() == 0:
        return values.clone()
    if int(group.min()) < 0:
        raise ValueError(f"Expected 'group' to hold numbers >= 0 (got {int(group.min())}).")
    group = group.long()
    median, spread = _median_and_spread(values, group)
    return ((values.double() - median[group]) / spread[group]).to(values.dtype)


class Standardizer:
    """Standardises columns, and keeps the scale, so that later values are scaled the same way.

    It remembers the median and the spread of each column, see :func:`robust_standardize`; a column
    that was constant becomes zero for ever.

    Example:
        >>> standardizer = Standardizer().fit(torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0]))
        >>> standardizer.transform(torch.tensor([3.0, 5.0]))
        tensor([0.0000, 1.3490])
    """

    def __init__(self) -> None:
        self.scale: tuple[Tensor, Tensor] | None = None  # median and spread, [] or [F] each

    def fit(self, values: Tensor) -> Self:
        """Find and keep the scale of `values` [E] or [E, F], column by column; forget any other.

        Raises:
            TypeError: if `values` is not a floating-point tensor.
            ValueError: if it has another shape, no entry, or NaN or infinite values.
        """
        _check_values(values, dims=(1, 2))
        if values.numel() == 0:
            raise ValueError(
                f"Expected 'values' to hold numbers to be fitted on (got {list(values.shape)})."
            )
        columns = values.detach().cpu().reshape(len(values), -1)
        group = torch.arange(columns.size(1)).expand_as(columns)
        median, spread = _median_and_spread(columns.flatten(), group.flatten())
        self.scale = median.reshape(values.shape[1:]), spread.reshape(values.shape[1:])
        return self

    def transform(self, values: Tensor) -> Tensor:
        """Scale `values`, with as many columns as it was fitted on: -> the same shape and type.

        Raises:
            TypeError: if `values` is not a floating-point tensor.
            RuntimeError: if :meth:`fit` has not been called.
            ValueError: if the columns are others, or there are NaN or infinite values.
        """
        if self.scale is None:
            raise RuntimeError(
                f"Expected {self!r} to be fitted. To fix this, call fit(values) first."
            )
        _check_values(values, dims=(1, 2))
        median, spread = (each.to(values.device) for each in self.scale)
        if values.shape[1:] != median.shape:
            fitted = ", ".join(map(str, ("E", *median.shape)))
            raise ValueError(
                f"Expected 'values' to have shape [{fitted}], as those it was fitted on (got "
                f"{list(values.shape)})."
            )
        return ((values.detach().double() - median) / spread).to(values.dtype)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}()"


def _check_values(values: Tensor, dims: tuple[int, ...]) -> None:
    check_float("values", values)
    check_dense("values", values)
    if values.dim() not in dims:
        expected = " or ".join(("[E]", "[E, F]")[dim - 1] for dim in dims)
        raise ValueError(f"Expected 'values' to have shape {expected} (got {list(values.shape)}).")
    check_signal_range("values", values.double())


def _median_and_spread(values: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the median [G] and the robust standard deviation [G] of each group, in float64.

    A spread that vanishes is infinite: divided by it, the deviations of such a group become zero.
    The rounding of the type of `values` counts as none.
    """
    count = group.bincount()
    numbers = values.double()
    median = _median(numbers, group, count)
    deviation = (numbers - median[group]).abs()
    spread = _MEDIAN_DEVIATION * _median(deviation, group, count)
    mean = deviation.new_zeros(count.numel()).index_add(0, group, deviation) / count.clamp(min=1)
    largest = torch.ones_like(spread).scatter_reduce(0, group, numbers.abs(), "amax")
    rounding = 8 * torch.finfo(values.dtype).eps * largest
    spread = torch.where(spread > rounding, spread, _MEAN_DEVIATION * mean)
    return median, spread.masked_fill(spread <= rounding, torch.inf)


def _median(values: Tensor, group: Tensor, count: Tensor) -> Tensor:
    """Compute the median of each group: the middle value, or the mean of the two middle ones."""
    ordered = values[group_order(values, None if count.numel() == 1 else group)]
    start = group_starts(group, count.numel())[:-1]
    last = values.numel() - 1  # an empty group may begin behind the end; its median is never used
    lower = ordered[(start + (count - 1).clamp(min=0) // 2).clamp(max=last)]
    upper = ordered[(start + count // 2).clamp(max=last)]
    return (lower + upper) / 2
