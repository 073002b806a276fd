r"""Which type a diffusion is computed in: the narrowest whose rounding keeps the tolerance.

The rounding of a Chebyshev recurrence grows with its length, and that of the entries of S acts for
as long as the heat flows: together they change the result by at most about

.. math::
    0.8 \, \epsilon \, t \, r

of its norm, for the rounding unit :math:`\epsilon` of the type and the largest rate r of the
Laplacian (one, if it is normalised). Measured on random graphs, rings and paths, by every
normalisation; rings have the whole of it, k-nearest-neighbour graphs a tenth. In float32 that is a
relative error of 1e-6 at t = 10, so longer times are computed in float64.
"""

import logging
import math
from collections.abc import Callable

import torch
from torch import Tensor

from .._precision import compute_dtype
from ..operators import HeatOperator, Scaling
from .options import HeatOptions
from .times import check_reach

_log = logging.getLogger(__name__)

_ROUNDING = 0.8

# The result is rounded to the type of x, whatever it is computed in.
_OUTPUT_ROUNDING = 8

# Rates in float32 stay within these powers of ten, so that no gradient underflows; and so do the
# ratios of the roots of degrees, by which small signals are multiplied.
_RANGE, _STEEPEST = 1e25, 1e6


def rounding_error(dtype: torch.dtype, t: float) -> float:
    """The relative error that rounding makes, for a time in units of the fastest rate.

    Example:
        >>> f"{rounding_error(torch.float32, 1e4):.0e}"
        '1e-03'
    """
    return _ROUNDING * torch.finfo(dtype).eps * max(t, 1.0)


def precise_operator(
    make: Callable[..., HeatOperator],
    x: Tensor,
    reach: Callable[[float], float],
    options: HeatOptions,
    **weights: Tensor | None,
) -> HeatOperator:
    """Make an operator in the type that signals like x and times or filters need.

    `make` is called with `dtype` and the weights by name, all in one type: the widest of theirs and
    its own. `reach`, called with the fastest rate, is the longest time in units of it.
    """

    def make_in(dtype: torch.dtype) -> HeatOperator:
        wide = dtype
        for each in weights.values():
            wide = wide if each is None else torch.promote_types(wide, each.dtype)
        given = {name: w if w is None else w.to(wide) for name, w in weights.items()}
        return make(dtype=dtype, **given)

    dtype = _choose(x, reach(1.0), options.tol)
    operator = make_in(dtype)
    scaling = operator.scaling
    if dtype == torch.float64 or (scaling.rate is None and scaling.row_scale is None):
        return operator
    slowest, fastest = scaling.rates
    needed = _choose(x, reach(fastest), options.tol)
    in_range = slowest > 1 / _RANGE and fastest < _RANGE and scaling.condition < _STEEPEST
    if not in_range and x.device.type != "mps":
        needed = torch.float64
    return operator if needed == dtype else make_in(needed)


def check_precision(
    x: Tensor, scaling: Scaling, reach: float, dtype: torch.dtype, options: HeatOptions
) -> None:
    """Refuse a time or a scale that no type can follow; warn where `dtype` is too narrow.

    Raises:
        ValueError: if a time is too long, or degrees are too far apart for the type.
    """
    fastest = scaling.rates[1]
    check_reach(reach, fastest)
    if math.isinf(scaling.condition):
        raise ValueError(
            f"Expected the roots of the degrees to be within the range of {dtype} of each other, "
            "as a random walk needs them (got some that underflow beside the largest). To fix "
            "this, make the operator with dtype=torch.float64."
        )
    error = rounding_error(dtype, reach)
    if error > _allowed(x, options.tol):
        _log.warning(
            "rounding in %s can change the result by %.2g of its norm at t = %.3g (of a filter: "
            "its largest slope), more than tol = %.2g allows.",
            dtype,
            error,
            reach / fastest,
            options.tol,
        )


def _allowed(x: Tensor, tol: float) -> float:
    """The relative error that goes unnoticed: the result is rounded to the type of x."""
    return max(tol, _OUTPUT_ROUNDING * torch.finfo(x.dtype).eps)


def _choose(x: Tensor, longest: float, tol: float) -> torch.dtype:
    """The narrowest type whose rounding is allowed."""
    dtype = compute_dtype(x)
    if x.device.type == "mps":
        return dtype  # which has no other
    is_wide_enough = rounding_error(dtype, longest) <= _allowed(x, tol)
    return dtype if is_wide_enough else torch.float64
