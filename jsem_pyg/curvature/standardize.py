"""Standardisation that a few extreme values, such as the curvature of bridges, do not move."""

from typing import Self

import torch
from torch import Tensor

from .._checks import (
    check_dense,
    check_device,
    check_finite,
    check_float,
    check_integers,
    check_positive_int,
)
from .._groups import group_order, group_starts
from .._precision import power_of_two

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

    Raises:
        TypeError: if `values` is not a floating-point tensor, `group` not one of integers, or
            `num_groups` no integer.
        ValueError: if it holds NaN or infinite values, or the groups do not fit.

    Source: Iglewicz and Hoaglin, "How to detect and handle outliers", 1993, section 3.3.

    Example:
        >>> robust_standardize(torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0]))
        tensor([-1.3490, -0.6745,  0.0000,  0.6745, 65.4256])
    """
    _check_values(values)
    group, count = _read_groups(values, group, num_groups)
    if values.numel() == 0:
        return values.clone()
    numbers, unit = _in_units(values)
    median, spread = _median_and_spread(numbers, unit, group, count, values.dtype)
    return ((numbers - median[group]) / spread[group]).to(values.dtype)


class Standardizer:
    """Standardises columns, and remembers how, so that values to come are scaled the same way.

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
        """Remember the scale of `values` [E] or [E, F], each column by itself; forget any other.

        Raises:
            TypeError: if `values` is not a floating-point tensor.
            ValueError: if it has another shape, no entry, or NaN or infinite values.
        """
        _check_values(values, dims=(1, 2))
        if values.numel() == 0:
            raise ValueError(
                f"Expected 'values' to hold numbers to be fitted on (got {list(values.shape)})."
            )
        columns = values.detach().cpu().reshape(len(values), -1).unbind(1)
        median, spread = map(torch.cat, zip(*map(_scale_of, columns), strict=True))
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
        median, spread = self.scale
        if values.shape[1:] != median.shape:
            fitted = ", ".join(map(str, ("E", *median.shape)))
            raise ValueError(
                f"Expected 'values' to have shape [{fitted}], as those it was fitted on (got "
                f"{list(values.shape)})."
            )
        # Halves first, since the difference may overflow.
        halves = values.detach().cpu().double() / 2 - median / 2
        return (halves / spread * 2).to(values)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}()"


def _scale_of(column: Tensor) -> tuple[Tensor, Tensor]:
    """The median [1] and the spread [1] of a column; its type sets what counts as rounding."""
    numbers, unit = _in_units(column)
    median, spread = _median_and_spread(numbers, unit, *_read_groups(column), column.dtype)
    return median * unit, spread * unit


def _check_values(values: Tensor, dims: tuple[int, ...] = (1,)) -> None:
    check_float("values", values)
    check_dense("values", values)
    if values.dim() not in dims:
        expected = " or ".join(("[E]", "[E, F]")[dim - 1] for dim in dims)
        raise ValueError(f"Expected 'values' to have shape {expected} (got {list(values.shape)}).")
    check_finite("values", values)


def _read_groups(
    values: Tensor, group: Tensor | None = None, num_groups: int | None = None
) -> tuple[Tensor, Tensor]:
    """The checked group [E] of each value, zero by default, and the size [G] of each group."""
    if num_groups is not None:
        check_positive_int("num_groups", num_groups)
    if group is None:
        group = torch.zeros(values.size(0), dtype=torch.int64, device=values.device)
    check_integers("group", group)
    if group.shape != values.shape:
        raise ValueError(
            f"Expected 'group' to have shape {list(values.shape)}, one group for each of 'values' "
            f"(got {list(group.shape)})."
        )
    check_device("group", group.device, values, "values")
    group = group.long()  # to torch, an index of type uint8 is a mask
    low, high = (int(group.min()), int(group.max())) if group.numel() else (0, -1)
    if low < 0 or (num_groups is not None and high >= num_groups):
        end = "G" if num_groups is None else num_groups
        raise ValueError(
            f"Expected 'group' to hold numbers in [0, {end}) (got values from {low} to {high})."
        )
    return group, group.bincount(minlength=high + 1 if num_groups is None else num_groups)


def _in_units(values: Tensor) -> tuple[Tensor, Tensor]:
    """Values in float64, within [-2, 2], so that nothing overflows, and their unit >= 1."""
    numbers = values.double()
    unit = power_of_two(numbers.abs().max().clamp(min=1.0))
    return numbers / unit, unit


def _median_and_spread(
    values: Tensor, unit: Tensor, group: Tensor, count: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The median [G] and the robust standard deviation [G] of each group, in the same units.

    A spread that vanishes is infinite: divided by it, the deviations of such a group become zero.
    The rounding of `dtype`, the type that the values came in, counts as none.
    """
    median = _median(values, group, count)
    deviation = (values - median[group]).abs()
    spread = _MEDIAN_DEVIATION * _median(deviation, group, count)
    mean = deviation.new_zeros(count.numel()).index_add(0, group, deviation) / count.clamp(min=1)
    largest = (1 / unit).expand(count.numel()).scatter_reduce(0, group, values.abs(), "amax")
    rounding = 8 * torch.finfo(dtype).eps * largest
    spread = torch.where(spread > rounding, spread, _MEAN_DEVIATION * mean)
    return median, spread.masked_fill(spread <= rounding, torch.inf)


def _median(values: Tensor, group: Tensor, count: Tensor) -> Tensor:
    """The median of each group, the mean of the two middle values of an even number."""
    ordered = values[group_order(values, None if count.numel() == 1 else group)]
    start = group_starts(group, count.numel())[:-1]
    last = values.numel() - 1  # an empty group may begin behind the end; its median is never used
    lower = ordered[(start + (count - 1).clamp(min=0) // 2).clamp(max=last)]
    upper = ordered[(start + count // 2).clamp(max=last)]
    return (lower + upper) / 2
