r"""The Chebyshev coefficients of the heat kernel, and how many of them a tolerance needs.

.. math::
    e^{-t (1 - s)} = \sum_{k \ge 0} c_k(t) T_k(s), \qquad
    c_k(t) = (2 - [k = 0]) \, e^{-t} I_k(t), \qquad s \in [-1, 1]

with the modified Bessel functions I_k (Abramowitz and Stegun 1964, 9.6.34; the expansion is that of
Tal-Ezer and Kosloff 1984). All c_k are positive and sum to one, so that cutting the series after
the degree K leaves an operator error of at most the sum of the c_k that were cut.
"""

from typing import Any

import numpy as np
import torch
from scipy.special import ive
from torch import Tensor

from .._checks import check_nonnegative, check_nonnegative_int
from ..kernels.torch_func import check_forward_mode


def heat_coefficients(t: Tensor, degree: int) -> Tensor:
    """The coefficients c_0(t), ..., c_K(t).

    Args:
        t: diffusion times >= 0, of any shape; differentiable, as often as one likes.
        degree: K >= 0.

    Returns:
        [K + 1, *t.shape] in float64, on the device of `t`.

    Example:
        >>> heat_coefficients(torch.tensor(0.0), degree=2)
        tensor([1., 0., 0.], dtype=torch.float64)
    """
    check_nonnegative_int("degree", degree)
    bessel = _ScaledBessel.apply(t.double(), degree)
    factor = bessel.new_full((degree + 1, *([1] * t.dim())), 2.0)
    factor[0] = 1.0
    return factor * bessel


class _ScaledBessel(torch.autograd.Function):
    """e^(-t) I_k(t) for k = 0..K."""

    @staticmethod
    def forward(t: Tensor, degree: int) -> Tensor:
        order = np.arange(degree + 1).reshape(-1, *([1] * t.dim()))
        return torch.from_numpy(np.asarray(ive(order, t.detach().cpu().numpy()))).to(t.device)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
        t, ctx.degree = inputs
        ctx.save_for_backward(t)
        ctx.save_for_forward(t)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (t,) = ctx.saved_tensors
        return (grad * _bessel_derivative(t, ctx.degree)).sum(0), None

    @staticmethod
    def jvp(ctx: Any, of_t: Tensor, _: None) -> Tensor:
        check_forward_mode()
        (t,) = ctx.saved_tensors
        return of_t * _bessel_derivative(t, ctx.degree)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], t: Tensor, degree: int) -> tuple[Tensor, int]:
        return _ScaledBessel.apply(t.movedim(in_dims[0], 0), degree), 1


def _bessel_derivative(t: Tensor, degree: int) -> Tensor:
    """The derivative of f_k in t, (f_(k-1) + f_(k+1)) / 2 - f_k with f_(-1) = f_1.

    It is written in terms of the same function, one order higher, so that it has one itself.
    """
    f = _ScaledBessel.apply(t, degree + 1)
    lower = torch.cat([f[1:2], f[:-2]])
    return 0.5 * (lower + f[1:]) - f[:-1]


def truncation_bound(t: float, degree: int) -> float:
    r"""An upper bound of ||exp(-t(I - S)) - sum_{k <= K} c_k T_k(S)||, for any symmetric S.

    It is the sum of the coefficients that were cut, since |T_k| <= 1 on the spectrum of S. They
    are summed up to where they underflow to zero.

    Args:
        t: the diffusion time, >= 0.
        degree: K >= 0.
    """
    check_nonnegative_int("degree", degree)
    tails = _tails(t)
    return float(tails[min(degree, len(tails) - 1)])


def heat_degree(t: float, bound: float) -> int:
    """The smallest degree whose truncation bound is at most `bound`.

    Args:
        t: the largest diffusion time, >= 0.
        bound: the error allowed, relative to the norm of the signal.

    Example:
        >>> heat_degree(5.0, bound=1e-6)
        12
    """
    check_nonnegative("bound", bound)
    return int(np.argmax(_tails(t) <= bound))


def _tails(t: float) -> np.ndarray:
    """The sums over k > K of c_k(t), for K = 0, 1, ... until they underflow to zero."""
    count = 32
    while ive(count, t) > 0:
        count *= 2
    cut = 2 * ive(np.arange(1, count + 1), t)
    return np.cumsum(cut[::-1])[::-1]
