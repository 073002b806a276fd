r"""Diffusion times, checked and of one shape, and the Chebyshev coefficients of their heat.

.. math::
    e^{-t (1 - s)} = \sum_{k \ge 0} c_k(t) T_k(s), \qquad
    c_k(t) = (2 - [k = 0]) \, e^{-t} I_k(t), \qquad s \in [-1, 1]

with the modified Bessel functions I_k (Abramowitz and Stegun 1964, 9.6.34; the expansion is that of
Tal-Ezer and Kosloff 1984). All c_k are positive and sum to one, so that cutting the series after
the degree K leaves an operator error of at most the sum of the c_k that were cut.

They are computed by the sum that turns samples of any function into its series, as in
:mod:`.filter_coefficients`: plain operations, which every derivative and transform of torch knows.
"""

import logging
import math
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from scipy.special import ive
from torch import Tensor

from .._checks import (
    check_dense,
    check_float,
    check_nonnegative,
    check_nonnegative_int,
    list_of,
    numbers_of,
    real_numbers,
)
from ..kernels.torch_func import lasting
from ..operators import HeatOperator
from .options import HeatOptions

_log = logging.getLogger(__name__)

LONGEST = 1e4  # times in units of the fastest rate

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


def heat_coefficients(t: Tensor, degree: int) -> Tensor:
    """Compute the Chebyshev coefficients c_0(t), ..., c_K(t) of the heat kernel.

    Args:
        t: diffusion times >= 0, of any shape; differentiable, as often as one likes.
        degree: K >= 0.

    Returns:
        `[K + 1, *t.shape]` in float64, on the device of `t`.

    Example:
        >>> heat_coefficients(torch.tensor(0.0), degree=2)
        tensor([1., 0., 0.], dtype=torch.float64)
    """
    check_float("t", t)
    check_dense("t", t)
    check_nonnegative_int("degree", degree)
    times = numbers_of(t)
    if not bool(((times >= 0) & times.isfinite()).all()):
        raise ValueError(f"Expected 't' to be finite and >= 0 (got {times.tolist()}).")
    longest = float(times.max()) if times.numel() else 0.0
    return coefficients_at(t.double(), degree, longest)


def coefficients_at(t: Tensor, degree: int, longest: float) -> Tensor:
    """Compute the coefficients of checked times, none above `longest`, in float64."""
    rate, cosines, first = _cosine_table(degree, sample_count(degree, longest), t.device)
    times = t.reshape(1, -1)
    decay = rate * times
    # Below one exp - 1, and one added to c_0, so that all digits of c_1 are right. From one on exp:
    # 1 plus a sum near -1 would leave the rounding of a thousand terms in a small c_0.
    if longest < 1:
        found = torch.addmm(first, cosines, torch.expm1(decay))
    elif times.numel() == 1:  # most calls, and a small graph feels the choice below
        found = cosines @ torch.exp(decay)
    else:
        is_short = times < 1
        samples = torch.where(is_short, torch.expm1(decay), torch.exp(decay))
        found = torch.addmm(first * is_short, cosines, samples)
    return found.reshape(degree + 1, *t.shape)


def sample_count(degree: int, longest: float) -> int:
    """Return how many samples M of exp(-t (1 - s)) give c_0, ..., c_K to the last digit.

    Their sum is c_k and c_(2M - k), c_(2M + k), ...; and c_k is below the rounding unit beyond
    k = 9 sqrt(t) + 30.
    """
    needed = max(degree + 1, (degree + math.ceil(9 * math.sqrt(longest)) + 30) // 2)
    return -(-needed // 16) * 16  # in steps, so that learned times find the same table


@lru_cache(maxsize=16)
@lasting
def _cosine_table(degree: int, count: int, device: torch.device) -> tuple[Tensor, ...]:
    """Return s - 1 [M, 1] at samples s, cosines [K + 1, M] that sum them to c_k, e_0 [K + 1, 1]."""
    odd = 2 * np.arange(count) + 1
    rate = -2 * np.sin(odd * (np.pi / (4 * count))) ** 2
    turns = np.arange(degree + 1)[:, None] * odd % (4 * count)
    cosines = np.cos(turns * (np.pi / (2 * count))) * (2 / count)
    cosines[0] /= 2
    parts = rate[:, None], cosines, np.eye(degree + 1, 1)
    return tuple(torch.from_numpy(each).to(device) for each in parts)


def truncation_bound(t: float, degree: int) -> float:
    r"""Bound the error of a heat series that is cut after degree K, for any operator S.

    It bounds `||exp(-t(I - S)) - sum_{k <= K} c_k T_k(S)||` by the sum of the coefficients that
    were cut, since `|T_k| <= 1` on the spectrum of S.
    """
    _check_time(t)
    check_nonnegative_int("degree", degree)
    tails = _tails(t)
    return float(tails[min(degree, len(tails) - 1)])


def heat_degree(t: float, bound: float) -> int:
    """Return the smallest degree for which the error of a cut series is at most `bound`.

    Args:
        t: the largest diffusion time, in [0, 1e4].
        bound: the error allowed, relative to the norm of the signal.

    Example:
        >>> heat_degree(5.0, bound=1e-6)
        12
    """
    _check_time(t)
    check_nonnegative("bound", bound)
    return _degree(float(t), float(bound))


@lru_cache(maxsize=256)
def _degree(t: float, bound: float) -> int:
    return int(np.argmax(_tails(t, 1e-14 * bound) <= bound))


def _check_time(t: float) -> None:
    check_nonnegative("t", t)
    if t > LONGEST:
        raise ValueError(f"Expected 't' to be at most {LONGEST:g} (got {t:g}).")


def _tails(t: float, negligible: float = 0.0) -> np.ndarray:
    """Sum c_k(t) over k > K, for K = 0, 1, ... until c_k is negligible."""
    count = 32
    while ive(float(count), t) > negligible:
        count *= 2
    cut = 2 * ive(np.arange(1.0, count + 1), t)
    return np.cumsum(cut[::-1])[::-1]


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
