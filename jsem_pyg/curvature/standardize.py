"""Standardisation that a few extreme values, such as the curvature of bridges, do not move."""

from typing import Self

import numpy as np
import torch
from torch import Tensor

from .._checks import (
    check_choice,
    check_dense,
    check_device,
    check_finite,
    check_float,
    check_integers,
    check_positive_int,
)
from .._groups import group_order, group_ranks, group_starts
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


def rank_standardize(
    values: Tensor, group: Tensor | None = None, num_groups: int | None = None
) -> Tensor:
    r"""Replace each value by the normal quantile of its rank, its van der Waerden score.

    .. math::
        z = \Phi^{-1} \left( \frac{r}{n + 1} \right)

    with the rank r = 1 ... n of a value among all n, and :math:`\Phi` the distribution function of
    the standard normal distribution. The order of the values alone matters: whatever their
    distribution, the result is spread like a normal sample, and no value is an outlier. Equal
    values share their mean rank and so stay equal; where all are equal, the result is zero. No
    gradient flows back.

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

    Source: van der Waerden, "Order tests for the two-sample problem and their power", Indagationes
    Mathematicae 14, 1952.

    Example:
        >>> rank_standardize(torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0]))
        tensor([-0.9674, -0.4307,  0.0000,  0.4307,  0.9674])
    """
    _check_values(values)
    group, count = (each.cpu() for each in _read_groups(values, group, num_groups))
    if values.numel() == 0:
        return values.clone()
    quantile = group_ranks(values.detach().cpu(), group, count.numel()) / (count[group] + 1)
    return torch.special.ndtri(quantile).to(values.device, values.dtype)


class Standardizer:
    """Standardises columns, and remembers how, so that values to come are scaled the same way.

    "robust" remembers the median and the spread of each column, see :func:`robust_standardize`; a
    column that was constant becomes zero for ever. "rank" remembers the distinct values of each
    column and their scores, see :func:`rank_standardize`: between two of them a new value gets a
    score in between, by linear interpolation, and beyond the outermost that of the outermost. So it
    is monotone, continuous and bounded, but has to keep the column.

    Args:
        method: "robust" or "rank".

    Raises:
        ValueError: if `method` is neither.

    Example:
        >>> standardizer = Standardizer().fit(torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0]))
        >>> standardizer.transform(torch.tensor([3.0, 5.0]))
        tensor([0.0000, 1.3490])
    """

    def __init__(self, method: str = "robust") -> None:
        check_choice("method", method, tuple(STANDARDIZATIONS))
        self.method = method
        self.scales: list[tuple[Tensor, Tensor]] = []  # of each column
        self.shape: tuple[int, ...] | None = None  # of a row of values: () or (F,)

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
        scale = _robust_scale if self.method == "robust" else _rank_scale
        self.scales = [scale(column) for column in _columns(values)]
        self.shape = tuple(values.shape[1:])
        return self

    def transform(self, values: Tensor) -> Tensor:
        """Scale `values`, with as many columns as it was fitted on: -> the same shape and type.

        Raises:
            TypeError: if `values` is not a floating-point tensor.
            RuntimeError: if :meth:`fit` has not been called.
            ValueError: if the columns are others, or there are NaN or infinite values.
        """
        if self.shape is None:
            raise RuntimeError(
                f"Expected {self!r} to be fitted. To fix this, call fit(values) first."
            )
        _check_values(values, dims=(1, 2))
        if tuple(values.shape[1:]) != self.shape:
            fitted = ", ".join(map(str, ("E", *self.shape)))
            raise ValueError(
                f"Expected 'values' to have shape [{fitted}], as those it was fitted on (got "
                f"{list(values.shape)})."
            )
        apply = _apply_robust if self.method == "robust" else _apply_rank
        scaled = [
            apply(column.double(), scale)
            for column, scale in zip(_columns(values), self.scales, strict=True)
        ]
        return torch.stack(scaled, dim=1).reshape(values.shape).to(values)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(method={self.method!r})"


def _columns(values: Tensor) -> tuple[Tensor, ...]:
    """[E] or [E, F] -> F columns [E] on the CPU."""
    values = values.detach().cpu()
    return (values,) if values.dim() == 1 else values.unbind(1)


def _robust_scale(column: Tensor) -> tuple[Tensor, Tensor]:
    """The median and the spread of a column; its type sets what counts as rounding."""
    numbers, unit = _in_units(column)
    median, spread = _median_and_spread(numbers, unit, *_read_groups(column), column.dtype)
    return median * unit, spread * unit


def _apply_robust(column: Tensor, scale: tuple[Tensor, Tensor]) -> Tensor:
    median, spread = scale
    # Halves first, since the difference may overflow.
    return (column / 2 - median / 2) / spread * 2


def _rank_scale(column: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct values of a column, ascending, and their scores."""
    column = column.double()
    known, where = column.unique(return_inverse=True)
    return known, torch.empty_like(known).scatter(0, where, rank_standardize(column))


def _apply_rank(column: Tensor, scale: tuple[Tensor, Tensor]) -> Tensor:
    known, score = scale
    return torch.from_numpy(np.interp(column.numpy(), known.numpy(), score.numpy()))


# What the standardisations are called where there is a choice.
STANDARDIZATIONS = {"robust": robust_standardize, "rank": rank_standardize}


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
