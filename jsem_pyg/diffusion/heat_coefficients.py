r"""The Chebyshev coefficients of the heat kernel, and how many of them a tolerance needs.

.. math::
    e^{-t (1 - s)} = \sum_{k \ge 0} c_k(t) T_k(s), \qquad
    c_k(t) = (2 - [k = 0]) \, e^{-t} I_k(t), \qquad s \in [-1, 1]

with the modified Bessel functions I_k (Abramowitz and Stegun 1964, 9.6.34; the expansion is that of
Tal-Ezer and Kosloff 1984). All c_k are positive and sum to one, so that cutting the series after
the degree K leaves an operator error of at most the sum of the c_k that were cut.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from scipy.special import ive
from torch import Tensor

from .._checks import check_dense, check_float, check_nonnegative, check_nonnegative_int, numbers_of
from ..kernels.torch_func import LightFunction, check_forward_mode, lasting
from .times import LONGEST

_MOST_REMEMBERED = 256  # times whose coefficients are remembered as one table


def heat_coefficients(t: Tensor, degree: int) -> Tensor:
    """The coefficients c_0(t), ..., c_K(t).

    Args:
        t: diffusion times >= 0, of any shape; differentiable, as often as one likes.
        degree: K >= 0.

    Returns:
        `[K + 1, *t.shape]` in float64, on the device of `t`.

    Raises:
        TypeError: if `t` is not a floating-point tensor, or `degree` no integer.
        ValueError: if a time is negative, NaN or infinite, or `degree` negative.

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
    return coefficients_in(t.double(), degree, torch.float64)


def coefficients_in(t: Tensor, degree: int, dtype: torch.dtype) -> Tensor:
    """Compute the coefficients of checked times in float64, in `dtype`."""
    out: Tensor = _Coefficients.call(t, degree, dtype)
    return out


class _Coefficients(LightFunction):
    """(t, degree, dtype) -> c_0(t), ..., c_K(t), differentiable as often as one likes."""

    @staticmethod
    def forward(t: Tensor, degree: int, dtype: torch.dtype) -> Tensor:
        return _table_at(t, degree, dtype).clone()  # what is remembered stays as it is

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        t, ctx.degree, ctx.dtype = inputs
        ctx.save_for_backward(t)
        ctx.save_for_forward(t)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (t,) = ctx.saved_tensors
        slope = _derivative(coefficients_in(t, ctx.degree + 1, torch.float64))
        return (grad.double() * slope).sum(0), None, None

    @staticmethod
    def jvp(ctx: Any, of_t: Tensor, *_: None) -> Tensor:
        check_forward_mode()
        (t,) = ctx.saved_tensors
        slope = _derivative(coefficients_in(t, ctx.degree + 1, torch.float64))
        return (of_t * slope).to(ctx.dtype)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], t: Tensor, *rest: Any) -> tuple[Tensor, int]:
        return _Coefficients.call(t.movedim(in_dims[0], 0), *rest), 1


def _derivative(c: Tensor) -> Tensor:
    r"""c_0, ..., c_(K+1) -> the derivatives in t of c_0, ..., c_K.

    .. math::
        c_k^{\prime} = (c_{k-1} + c_{k+1}) / 2 - c_k, \qquad k \ge 2

    with 2 c_0 in place of c_(k-1) for k = 1, and zero for k = 0.
    """
    lower = torch.cat([torch.zeros_like(c[:1]), 2 * c[:1], c[1:-2]])[: len(c) - 1]
    return 0.5 * (lower + c[1:]) - c[:-1]


def _table_at(t: Tensor, degree: int, dtype: torch.dtype) -> Tensor:
    """Look up the coefficients at times of any shape."""
    make = _table if t.numel() <= _MOST_REMEMBERED else _table.__wrapped__
    return make(tuple(t.flatten().tolist()), tuple(t.shape), degree, dtype).to(t.device)


@lru_cache(maxsize=64)
@lasting
def _table(
    numbers: tuple[float, ...], shape: tuple[int, ...], degree: int, dtype: torch.dtype
) -> Tensor:
    order = np.arange(float(degree + 1)).reshape(-1, *([1] * len(shape)))
    values = np.asarray(ive(order, np.reshape(numbers, shape)))
    values[1:] *= 2
    return torch.from_numpy(values).to(dtype)


def truncation_bound(t: float, degree: int) -> float:
    r"""An upper bound of `||exp(-t(I - S)) - sum_{k <= K} c_k T_k(S)||`, for any symmetric S.

    It is the sum of the coefficients that were cut, since `|T_k| <= 1` on the spectrum of S. They
    are summed up to where they underflow to zero.

    Args:
        t: the diffusion time, in [0, 1e4].
        degree: K >= 0.

    Raises:
        TypeError: if an argument is not a number.
        ValueError: if it is out of its range.
    """
    _check_time(t)
    check_nonnegative_int("degree", degree)
    tails = _tails(t)
    return float(tails[min(degree, len(tails) - 1)])


def heat_degree(t: float, bound: float) -> int:
    """The smallest degree whose truncation bound is at most `bound`.

    Args:
        t: the largest diffusion time, in [0, 1e4].
        bound: the error allowed, relative to the norm of the signal.

    Raises:
        TypeError: if an argument is not a number.
        ValueError: if it is out of its range.

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
    """The sums over k > K of c_k(t), for K = 0, 1, ... until c_k is negligible."""
    count = 32
    while ive(float(count), t) > negligible:
        count *= 2
    cut = 2 * ive(np.arange(1.0, count + 1), t)
    return np.cumsum(cut[::-1])[::-1]
