r"""Which type a diffusion is computed in: the narrowest whose rounding keeps the tolerance.

The rounding of a Chebyshev recurrence grows with its length, and that of the entries of S acts for
as long as the heat flows: together they change the result by at most about

.. math::
    0.8 \, \epsilon \, t \, r

of its norm, for the rounding unit :math:`\epsilon` of the type and the rate r of the Laplacian
(one, if it is normalised). Measured on random graphs, rings and paths, by every normalisation;
rings have the whole of it, k-nearest-neighbour graphs a tenth. In float32 that is a relative error
of 1e-6 at t = 10. So longer times are computed in float64.
"""

import logging

import torch
from torch import Tensor

from .._precision import compute_dtype
from .times import check_reach

_log = logging.getLogger(__name__)

_ROUNDING = 0.8
_OUTPUT_ROUNDING = 8  # rounding units of the type of x, to which the result is rounded anyway


def choose_dtype(x: Tensor, reach: float, tol: float) -> torch.dtype:
    """Choose the type for signals like x, and a time or a filter's slope in units of the rate."""
    dtype = compute_dtype(x)
    if x.device.type == "mps":
        return dtype  # which has no other
    return dtype if rounding_error(dtype, reach) <= _allowed(x, tol) else torch.float64


def rounding_error(dtype: torch.dtype, reach: float) -> float:
    """Return the relative error that rounding makes, for a time in units of the rate.

    Example:
        >>> f"{rounding_error(torch.float32, 1e4):.0e}"
        '1e-03'
    """
    return _ROUNDING * torch.finfo(dtype).eps * max(reach, 1.0)


def check_precision(x: Tensor, reach: float, rate: float, dtype: torch.dtype, tol: float) -> None:
    """Refuse a time that is too long; warn if `dtype`, that of an operator, is too narrow.

    Raises:
        ValueError: if the time in units of the rate, `reach`, is above 1e4.
    """
    check_reach(reach, rate)
    error = rounding_error(dtype, reach)
    if error > _allowed(x, tol):
        _log.warning(
            "rounding in %s can change the result by %.2g of its norm at t = %.3g (of a filter: "
            "its largest slope), more than tol = %.2g allows.",
            dtype,
            error,
            reach / rate,
            tol,
        )


def _allowed(x: Tensor, tol: float) -> float:
    """Return the relative error that goes unnoticed: the result is rounded to the type of x."""
    return max(tol, _OUTPUT_ROUNDING * torch.finfo(x.dtype).eps)
