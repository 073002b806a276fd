r"""The Chebyshev coefficients of the heat kernel, and how many of them a tolerance needs.

.. math::
    e^{-t (1 - s)} = \sum_{k \ge 0} c_k(t) T_k(s), \qquad
    c_k(t) = (2 - [k = 0]) \, e^{-t} I_k(t), \qquad s \in [-1, 1]

with the modified Bessel functions I_k (Abramowitz and Stegun 1964, 9.6.34; the expansion is that of
Tal-Ezer and Kosloff 1984). All c_k are positive and sum to one, so that cutting the series after
the degree K leaves an operator error of at most the sum of the c_k that were cut.

They are computed by the sum that turns samples of any function into its series, as in
:mod:`.filter_coefficients`: plain operations, which every derivative and transform of torch knows.
"""

import math
from functools import lru_cache

import numpy as np
import torch
from scipy.special import ive
from torch import Tensor

from .._checks import check_dense, check_float, check_nonnegative, check_nonnegative_int, numbers_of
from ..kernels.torch_func import lasting

LONGEST = 1e4  # times in units of the fastest rate


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
