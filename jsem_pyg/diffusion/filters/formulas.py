"""Filters that are given by a formula, or by any function of your own."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..._checks import check_positive_int, check_tensor
from .filter import Filter, FilterBank
from .number import Number


class FromFunction(Filter):
    """Makes a filter of any function of the eigenvalue.

    Formulas keep their numbers inside their domain: a `torch.nn.Parameter` that one is given is
    where learning starts, and what is learned, the filter's own parameter, is the logarithm or the
    logit of it. ``Heat(t).t`` and so on is the number itself.

    Args:
        function: maps eigenvalues, a float64 tensor, to values of the same shape, by torch's
            operations. The smoother it is, the shorter is its series.
        numbers: tensors that it is called with by name as well, such as parameters to be learned.

    Example:
        >>> decay = torch.nn.Parameter(torch.tensor(2.0))
        >>> filter = FromFunction(lambda at, decay: 1 / (1 + decay * at), decay=decay)
        >>> [name for name, _ in filter.named_parameters()]
        ['decay']
    """

    def __init__(self, function: Callable[..., Tensor], **numbers: Tensor | Number) -> None:
        super().__init__()
        if not callable(function):
            raise TypeError(f"Expected 'function' to be callable (got {type(function).__name__}).")
        self.function, self.names = function, tuple(numbers)
        for name, number in numbers.items():
            setattr(self, name, number)

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        return found() if isinstance(found, Number) else found

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
        function = getattr(self.function, "func", self.function)
        name = getattr(function, "__name__", type(function).__name__).lstrip("_")
        return ", ".join([name, *(f"{n}={getattr(self, n).tolist()}" for n in self.names)])


def Heat(t: float | Tensor = 1.0) -> FromFunction:
    r"""Make heat, :math:`e^{-t \lambda}`: diffusion for the time t > 0; f_s f_t = f_(s + t)."""
    return FromFunction(_heat, t=Number("t", t))


def PersonalizedPageRank(alpha: float | Tensor = 0.1) -> FromFunction:
    r"""Make :math:`\alpha / (\alpha + (1 - \alpha) \lambda)`: random walks that restart.

    The limit of `APPNP` for many steps: with L = I - S,
    :math:`\alpha (I - (1 - \alpha) S)^{-1}`. Law: :math:`f \cdot (\alpha I + (1 - \alpha) L) =
    \alpha I`; with "rw" rows of f sum to one, and no entry is negative.

    Args:
        alpha: probability of a restart, in (0, 1].

    Source: Gasteiger, Bojchevski and Günnemann 2019, "Predict then propagate", equation 3.
    """
    return FromFunction(_pagerank, alpha=Number("alpha", alpha, high=1.0))


def Resolvent(t: float | Tensor = 1.0) -> FromFunction:
    r"""Make :math:`1 / (1 + t \lambda)`, t > 0: an implicit step of diffusion (Tikhonov).

    Law: f (I + t L) = I; no entry is negative.
    """
    return FromFunction(_resolvent, t=Number("t", t))


def LowPass(cutoff: float | Tensor, order: int = 2) -> FromFunction:
    r"""Make Butterworth's filter :math:`1 / (1 + (\lambda / c)^{2 p})` of cutoff c and order p.

    Law: f(0) = 1, f(c) = 1/2, decreasing.
    """
    check_positive_int("order", order)
    return FromFunction(partial(_low_pass, order), cutoff=Number("cutoff", cutoff))


def Wavelets(scales: Sequence[float | Tensor] | Tensor) -> FilterBank:
    r"""Make a low pass and a wavelet for each scale, a tight frame: :math:`\sum_s f_s^2 = 1`.

    So :math:`\sum_s ||f_s(L) x||^2 = ||x||^2` for symmetric L, and :math:`\sum_s f_s(L) y_s` is the
    signal of the coefficients :math:`y_s = f_s(L) x`. The low pass is first, then the Mexican hats
    :math:`t \lambda e^{-t \lambda}` from the largest scale to the smallest (Hammond et al. 2011,
    section 8), divided by the root of the sum of all squares.

    Args:
        scales: times > 0, numbers or 0-d tensors. A wavelet of the scale t answers mostly
            eigenvalues about 1 / t.
    """
    if isinstance(scales, Tensor):
        scales = scales.unbind() if scales.dim() else [scales]
    given = (Number("scales", each) for each in scales)
    times = sorted(given, key=lambda each: each.start.item(), reverse=True)
    if not times:
        raise ValueError("Expected 'scales' to hold at least one time (got none).")
    numbers = {f"t{index}": t for index, t in enumerate(times)}
    parts = [partial(_wavelet, index) for index in range(len(times) + 1)]
    return FilterBank(*(FromFunction(part, **numbers) for part in parts))


# Not inside of the functions that make filters, so that these can be copied and saved.
def _heat(eigenvalue: Tensor, t: Tensor) -> Tensor:
    return torch.exp(-t * eigenvalue)


def _pagerank(eigenvalue: Tensor, alpha: Tensor) -> Tensor:
    return alpha / (alpha + (1 - alpha) * eigenvalue)


def _resolvent(eigenvalue: Tensor, t: Tensor) -> Tensor:
    return 1 / (1 + t * eigenvalue)


def _low_pass(order: int, eigenvalue: Tensor, cutoff: Tensor) -> Tensor:
    return 1 / (1 + (eigenvalue / cutoff) ** (2 * order))


def _wavelet(index: int, eigenvalue: Tensor, **times: Tensor) -> Tensor:
    scaled = torch.stack([t * eigenvalue for t in times.values()])
    # The low pass is as high as a wavelet's peak, and ends where the first wavelet rises.
    low = -1 - (scaled[:1] / 0.6) ** 4
    high = scaled.clamp_min(1e-300).log() - scaled
    return torch.exp(torch.cat([2 * low, 2 * high]).log_softmax(0)[index] / 2)
