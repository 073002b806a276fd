"""Check signals and diffusion times, and bring them into one shape."""

import logging
import math
from numbers import Real
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from .._checks import check_float, list_of, real_numbers
from ..operators import HeatOperator
from .heat_coefficients import LONGEST, coefficients_at, heat_degree, truncation_bound
from .options import HeatOptions

_log = logging.getLogger(__name__)

# The series is cut at a hundredth of the tolerance: its error is proportional to the signal that
# goes in, and this keeps it below `tol` relative to what comes out, as long as diffusion leaves a
# hundredth of the signal's norm. It costs two or three terms.
MARGIN = 0.01


class Times(NamedTuple):
    """Diffusion times that have passed their checks."""

    value: Tensor  # [S, 1 or D], float64, on the CPU, where the coefficients are computed
    longest: float  # zero if there are no times, or in compiled code, which has no values

    def slope(self, fastest: float) -> float:
        """Return the longest time in units of a rate, the largest slope of the heat."""
        return self.longest * fastest

    def coefficients(
        self, operator: HeatOperator, dtype: torch.dtype, options: HeatOptions
    ) -> Tensor:
        """Compute the coefficients [K + 1, S, 1 or D] of the series."""
        degree = series_degree(self.longest, operator, dtype, options)
        return coefficients_at(self.value * operator.rate, degree, self.slope(operator.rate))

    def at_zero(self) -> Tensor:
        """Return ones [S]: isolated nodes keep their features."""
        return torch.ones(self.value.size(0), dtype=torch.float64, device="cpu")


def series_degree(
    longest: float, operator: HeatOperator, dtype: torch.dtype, options: HeatOptions
) -> int:
    """Return the degree of a series for times, as given or as the tolerance needs."""
    longest, fastest = longest * operator.rate, operator.rate
    if not longest <= LONGEST * (1 + 1e-6):  # by rounding; nor NaN
        raise ValueError(
            f"Expected 't' to be at most {LONGEST / fastest:.3g}, {LONGEST:.0e} in units of the "
            f"fastest rate of the Laplacian, which is {fastest:.3g} (got {longest / fastest:.3g}). "
            "To fix this, take a shorter time, or the limit: the (weighted) mean of 'x' over each "
            "connected component."
        )
    degree = options.degree
    if degree is None:
        return degree_of(longest, options.tol, dtype, operator.condition)
    if (error := truncation_bound(min(longest, LONGEST), degree)) > 1e-2:
        _log.warning(
            "degree=%d is too low for t = %.3g: the result can be wrong by %.2g of the "
            "signal's norm. degree=None finds a degree that is high enough.",
            degree, longest, error,
        )  # fmt: skip
    return degree


def degree_of(longest: float, tol: float, dtype: torch.dtype, condition: float) -> int:
    """Return the degree that a tolerance needs, for times in units of the rate."""
    bound = max(MARGIN * tol, torch.finfo(dtype).eps / 2) / condition
    # At short times, derivatives in weights are of the order of t, and those in t drop one power of
    # it: so the rest of the series counts 1 / t times as much. x itself, the first term, is precise
    # enough at the shortest, but has no derivative in weights.
    return max(heat_degree(min(longest, LONGEST), bound * min(longest, 1.0)), 1)


def read_times(t: float | Tensor, num_channels: int, name: str = "t") -> Times:
    """Check diffusion times for D channels, and bring them to the shape [S, 1 or D].

    In compiled code, which has no values to check, the op does that.
    """
    times = shape_times(t, num_channels, name)
    if torch.compiler.is_compiling():
        return Times(times, 0.0)
    numbers = list_of(times)
    if not all(0 <= each < math.inf for each in numbers):
        given = numbers[0] if is_single(t) else numbers
        raise ValueError(f"Expected '{name}' to be finite and >= 0 (got {given}).")
    return Times(times, max(numbers, default=0.0))


def shape_times(t: float | Tensor, num_channels: int, name: str = "t") -> Tensor:
    """Bring times to the shape [S, 1 or D]. Their values are not checked: compiled code cannot."""
    if isinstance(t, (float, int)) and not isinstance(t, bool):  # torch 2.8 traces no float | int
        # Not `as_tensor`, for which torch.compile would make new code for every number.
        return (torch.zeros((), dtype=torch.float64, device="cpu") + t).reshape(1, 1)
    times = real_numbers(name, t)
    is_empty = times.dim() > 0 and times.size(0) == 0
    # Not `in`: sizes may be symbols of a compiler.
    is_other_width = times.dim() == 2 and times.size(1) != 1 and times.size(1) != num_channels
    if is_empty or is_other_width or times.dim() > 2:
        raise ValueError(
            f"Expected '{name}' to be a number, [S] scales or [S, D] scales and channels, with "
            f"D = {num_channels} (got shape {list(times.shape)})."
        )
    times = times.to("cpu", torch.float64)
    return times if times.dim() == 2 else times.reshape(-1, 1)


def check_single_time(t: Any) -> None:
    """Raise a ValueError if `t` holds several times."""
    shape = real_numbers("t", t).shape
    if len(shape) > 0:
        raise ValueError(f"Expected 't' to be a single number or 0-d tensor (got {list(shape)}).")


def squeeze_scales(out: Tensor, t: float | Tensor) -> Tensor:
    """Drop the axis of scales, [..., S, N, D] -> [..., N, D], if `t` is a single time."""
    return out.squeeze(-3) if is_single(t) else out


def is_single(t: float | Tensor) -> bool:
    """Return True if `t` is one time, without scales."""
    # A number first: compiled code cannot ask it for attributes, as it can arrays and tensors.
    return isinstance(t, Real) or getattr(t, "ndim", None) == 0


def refuse_jit(what: str) -> NoReturn:
    """Raise an error for a tool of `torch.jit`, and name the one that works."""
    raise NotImplementedError(
        f"Expected no {what}. To fix this, use torch.export, which takes the layers on graphs."
    )


def check_signal(x: Tensor, name: str = "x", may_be_sparse: bool = False) -> None:
    """Raise unless a signal is a dense floating-point tensor of shape [..., N, D]."""
    if torch.jit.is_tracing():
        refuse_jit("torch.jit.trace, in which the graph would become a constant")
    check_float(name, x)
    if x.layout != torch.strided and not may_be_sparse:
        raise ValueError(
            f"Expected '{name}' to be dense, since heat soon fills every row (got {x.layout}). To "
            f"fix this, pass {name}.to_dense(), or map the features to fewer channels first."
        )
    if x.dim() < 2:
        raise ValueError(f"Expected '{name}' to have shape [..., N, D] (got {list(x.shape)}).")
