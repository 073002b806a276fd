r"""Choose the type that a diffusion is computed in: the narrowest that keeps the tolerance.

The rounding of a Chebyshev recurrence grows with its length, and that of the entries of S acts for
as long as the heat flows: together they change the result by at most about

.. math::
    0.8 \, \epsilon \, t \, r

of its norm, for the rounding unit :math:`\epsilon` of the type and the rate r of the Laplacian
(one, if it is normalised). Measured on random graphs, rings and paths, by every normalisation;
rings have the whole of it, k-nearest-neighbour graphs a tenth. In float32 that is a relative error
of 1e-6 at t = 10. So longer times are computed in float64.
"""

import torch

_ROUNDING = 0.8
_OUTPUT_ROUNDING = 8  # rounding units of the type of x, to which the result is rounded anyway


def choose_dtype(given: torch.dtype, device: torch.device, reach: float, tol: float) -> torch.dtype:
    """Choose the type for signals of a type, and a time or a filter's slope in units of the rate.

    Example:
        >>> choose_dtype(torch.float32, torch.device("cpu"), 1e3, tol=1e-6)
        torch.float64
    """
    dtype = torch.promote_types(given, torch.float32)
    is_enough = device.type == "mps" or is_precise(dtype, given, reach, tol)  # MPS has no float64
    return dtype if is_enough else torch.float64


def is_precise(dtype: torch.dtype, given: torch.dtype, reach: float, tol: float) -> bool:
    """Return True if rounding in `dtype` goes unnoticed in a result of the type `given`."""
    return rounding_error(dtype, reach) <= max(tol, _OUTPUT_ROUNDING * torch.finfo(given).eps)


def rounding_error(dtype: torch.dtype, reach: float) -> float:
    """Return the relative error that rounding makes, for a time in units of the rate.

    Example:
        >>> f"{rounding_error(torch.float32, 1e4):.0e}"
        '1e-03'
    """
    return _ROUNDING * torch.finfo(dtype).eps * max(reach, 1.0)
