"""Filters that are given by a formula, low passes most of them, or by any function."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..._checks import check_positive_int, check_tensor
from .filter import Filter, positive


class Heat(Filter):
    r""":math:`e^{-t \lambda}`: diffusion for the time t. Law: f_s f_t = f_(s + t).

    Args:
        t: > 0.
    """

    def __init__(self, t: float | Tensor = 1.0) -> None:
        super().__init__()
        self.t = positive("t", t)

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        return torch.exp(-self.t.to(eigenvalue) * eigenvalue)


class PersonalizedPageRank(Filter):
    r""":math:`\alpha / (\alpha + (1 - \alpha) \lambda)`: random walks that restart.

    The limit of `APPNP` for many steps: with L = I - S,
    :math:`\alpha (I - (1 - \alpha) S)^{-1}`. Law: :math:`f \cdot (\alpha I + (1 - \alpha) L) =
    \alpha I`; with "rw" rows of f sum to one, and no entry is negative.

    Args:
        alpha: probability of a restart, in (0, 1].

    Source: Gasteiger, Bojchevski and Günnemann 2019, "Predict then propagate", equation 3.
    """

    def __init__(self, alpha: float | Tensor = 0.1) -> None:
        super().__init__()
        self.alpha = positive("alpha", alpha)
        if float(self.alpha.detach()) > 1:
            raise ValueError(
                f"Expected 'alpha' to be in (0, 1] (got {float(self.alpha.detach())})."
            )

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        alpha = self.alpha.to(eigenvalue)
        return alpha / (alpha + (1 - alpha) * eigenvalue)


class Resolvent(Filter):
    r""":math:`1 / (1 + t \lambda)`: one implicit step of diffusion (Tikhonov's smoothing).

    Law: f (I + t L) = I; no entry is negative.

    Args:
        t: > 0.
    """

    def __init__(self, t: float | Tensor = 1.0) -> None:
        super().__init__()
        self.t = positive("t", t)

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        return 1 / (1 + self.t.to(eigenvalue) * eigenvalue)


class LowPass(Filter):
    r""":math:`1 / (1 + (\lambda / c)^{2 p})`: Butterworth's filter.

    Law: f(0) = 1, f(c) = 1/2, decreasing.

    Args:
        cutoff: c > 0.
        order: p, how steep it is; an integer.
    """

    def __init__(self, cutoff: float | Tensor, order: int = 2) -> None:
        super().__init__()
        check_positive_int("order", order)
        self.cutoff, self.order = positive("cutoff", cutoff), order

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        return 1 / (1 + (eigenvalue / self.cutoff.to(eigenvalue)) ** (2 * self.order))


class FromFunction(Filter):
    """Any function of the eigenvalue.

    Args:
        function: maps eigenvalues, a float64 tensor, to values of the same shape, by torch's
            operations. The smoother it is, the shorter is its series.

    Raises:
        TypeError: if `function` cannot be called; where it is called, if it returns no tensor.
        ValueError: there, if that is complex or of another shape.
    """

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        if not callable(function):
            raise TypeError(f"Expected 'function' to be callable (got {type(function).__name__}).")
        self.function = function

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        values: Tensor = self.function(eigenvalue)
        check_tensor("function(eigenvalue)", values)
        if values.is_complex() or values.shape != eigenvalue.shape:
            raise ValueError(
                f"Expected 'function(eigenvalue)' to be of shape {list(eigenvalue.shape)}, a real "
                f"number for each eigenvalue (got shape {list(values.shape)} of {values.dtype})."
            )
        return values
