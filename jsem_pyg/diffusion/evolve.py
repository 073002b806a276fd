"""Operator -> coefficients -> series -> result: the steps of every diffusion."""

import logging
import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from .._precision import compute_dtype, full_precision
from ..kernels.chebyshev.series import SeriesOperator
from ..operators import HeatOperator
from .heat_coefficients import coefficients_in, heat_degree, truncation_bound
from .options import HeatOptions
from .precision import check_precision
from .times import Times

_log = logging.getLogger(__name__)

# The series is cut at a hundredth of the tolerance: its error is proportional to the signal that
# goes in, and this keeps it below `tol` relative to what comes out, as long as diffusion leaves a
# hundredth of the signal's norm. It costs two or three terms.
MARGIN = 0.01


class SpectralFilter(Protocol):
    """Functions of the Laplacian that may take the place of times, see :mod:`.filters`."""

    num_filters: int | None

    def reach(self, rate: float) -> float:
        """Return the largest slope for eigenvalues up to 2 r, times r; that of heat is its time."""

    def coefficients(self, x: Tensor, operator: HeatOperator, options: HeatOptions) -> Tensor:
        """Compute the coefficients [K + 1, S, 1] of the series."""

    def at_zero(self) -> Tensor:
        """Return f(0) [S], in float64, on the CPU."""


def evolve(
    x: Tensor, operator: HeatOperator, times: Times | SpectralFilter, options: HeatOptions
) -> Tensor:
    """Diffuse or filter a signal [..., N, D] by an operator -> [..., S, N, D]."""
    if isinstance(times, Times):
        return sum_series(x, operator, series_coefficients(x, operator, times, options))
    return sum_series(x, operator, times.coefficients(x, operator, options), times.at_zero())


def series_coefficients(
    x: Tensor, operator: HeatOperator, times: Times, options: HeatOptions
) -> Tensor:
    """Compute the coefficients [K + 1, S, 1 or D] of :func:`evolve`."""
    scaling = operator.scaling
    dtype = compute_dtype(x) if operator.dtype is None else operator.dtype
    reach = times.reach(scaling.rate)
    check_precision(x, reach, scaling.rate, dtype, options.tol)
    num_terms = _count_terms(reach, options, dtype, scaling.condition)
    coefficients = coefficients_in(times.value * scaling.rate, num_terms, dtype)
    # On CUDA this thread goes on once they are on their way; it need not wait for the GPU.
    return coefficients.to(x.device, non_blocking=x.is_cuda)


def sum_series(
    x: Tensor, operator: HeatOperator, coefficients: Tensor, at_zero: Tensor | None = None
) -> Tensor:
    """Sum the series for a signal [..., N, D] -> [..., S, N, D].

    Batches fold into the columns, since the operator acts on each column by itself. Isolated nodes
    keep their features, times f(0) [S] of a filter.
    """
    batch, (num_nodes, channels) = x.shape[:-2], x.shape[-2:]
    if len(coefficients) == 1 and not isinstance(operator.matrix, SeriesOperator):
        # Autograd needs a product to see what S is made of, also where the derivative is zero.
        coefficients = F.pad(coefficients, (0, 0) * 2 + (0, 1))
    row_scale, isolated = operator.scaling.row_scale, operator.scaling.isolated
    columns = x if x.dtype == coefficients.dtype else x.to(coefficients.dtype)
    if row_scale is not None:
        columns = row_scale.unsqueeze(-1) * columns
    if batch:
        columns = columns.movedim(-2, 0).reshape(num_nodes, math.prod(batch) * channels)
        if coefficients.size(-1) > 1:
            coefficients = coefficients.repeat(1, 1, math.prod(batch))
    with full_precision(x.device):
        out = operator.matrix.series(columns, coefficients)
    if batch:
        out = out.reshape(coefficients.size(1), num_nodes, *batch, channels)
        out = out.movedim((0, 1), (-3, -2))
    if row_scale is not None:
        out = out / row_scale.unsqueeze(-1)
    out = out if out.dtype == x.dtype else out.to(x.dtype)
    if isolated is None:
        return out
    kept = x.unsqueeze(-3)
    if at_zero is not None:
        kept = at_zero.to(x).reshape(-1, 1, 1) * kept
    return torch.where(isolated.unsqueeze(-1), kept, out)


def _count_terms(longest: float, options: HeatOptions, dtype: torch.dtype, condition: float) -> int:
    """The number of terms beyond the first: as many as asked for, or as the tolerance needs."""
    if options.degree is not None:
        error = truncation_bound(longest, options.degree)
        if error > 1e-2:
            _log.warning(
                "degree=%d is too low for t = %.3g: the result can be wrong by %.2g of the "
                "signal's norm. degree=None finds a degree that is high enough.",
                options.degree,
                longest,
                error,
            )
        return options.degree
    bound = max(MARGIN * options.tol, torch.finfo(dtype).eps / 2) / condition
    # At short times, derivatives in weights are of the order of t, and those in t drop one power of
    # it: beside both, the rest of the series counts 1 / t times as much. x itself, the first term,
    # is precise enough at the shortest, but has no derivative in weights.
    return max(heat_degree(longest, bound * min(longest, 1.0)), 1)
