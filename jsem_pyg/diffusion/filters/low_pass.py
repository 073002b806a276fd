"""Filters that are given by a formula, low passes most of them, or by any function."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..._checks import check_positive_int, check_tensor
from .filter import Filter, positive, shown


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

    def extra_repr(self) -> str:
        """Name the time."""
        return shown(t=self.t)


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

    def extra_repr(self) -> str:
        """Name alpha."""
        return shown(alpha=self.alpha)


class FromFunction(Filter):
    """Any function of the eigenvalue.

    Args:
        function: maps eigenvalues, a float64 tensor, to values of the same shape, by torch's
            operations. The smoother it is, the shorter is its series.
        numbers: tensors that it is called with by name as well, such as parameters to be learned.

    Raises:
        TypeError: if `function` cannot be called; when it is called, if it returns no tensor.
        ValueError: then, if that is complex or of another shape.

    Example:
        >>> decay = torch.nn.Parameter(torch.tensor(2.0))
        >>> filter = FromFunction(lambda at, decay: 1 / (1 + decay * at), decay=decay)
        >>> [name for name, _ in filter.named_parameters()]
        ['decay']
    """

    def __init__(self, function: Callable[..., Tensor], **numbers: Tensor) -> None:
        super().__init__()
        if not callable(function):
            raise TypeError(f"Expected 'function' to be callable (got {type(function).__name__}).")
        self.function, self.names = function, tuple(numbers)
        for name, number in numbers.items():
            setattr(self, name, number)

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        numbers = {name: getattr(self, name).to(eigenvalue) for name in self.names}
        values: Tensor = self.function(eigenvalue, **numbers)
        check_tensor("function(eigenvalue)", values)
        if values.is_complex() or values.shape != eigenvalue.shape:
            raise ValueError(
                f"Expected 'function(eigenvalue)' to be of shape {list(eigenvalue.shape)}, a real "
                f"number for each eigenvalue (got shape {list(values.shape)} of {values.dtype})."
            )
        return values

    def extra_repr(self) -> str:
        """Name the function and its numbers."""
        name = getattr(self.function, "__name__", repr(self.function))
        return ", ".join(
            [name, *filter(None, [shown(**{n: getattr(self, n) for n in self.names})])]
        )


def Resolvent(t: float | Tensor = 1.0) -> FromFunction:
    r"""Make :math:`1 / (1 + t \lambda)`: one implicit step of diffusion (Tikhonov's smoothing).

    Law: f (I + t L) = I; no entry is negative.

    Args:
        t: > 0.
    """

    def resolvent(eigenvalue: Tensor, t: Tensor) -> Tensor:
        return 1 / (1 + t * eigenvalue)

    return FromFunction(resolvent, t=positive("t", t))


def LowPass(cutoff: float | Tensor, order: int = 2) -> FromFunction:
    r"""Make :math:`1 / (1 + (\lambda / c)^{2 p})`: Butterworth's filter.

    Law: f(0) = 1, f(c) = 1/2, decreasing.

    Args:
        cutoff: c > 0.
        order: p, how steep it is; an integer.
    """
    check_positive_int("order", order)

    def low_pass(eigenvalue: Tensor, cutoff: Tensor) -> Tensor:
        return 1 / (1 + (eigenvalue / cutoff) ** (2 * order))

    return FromFunction(low_pass, cutoff=positive("cutoff", cutoff))
