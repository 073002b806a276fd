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
from .heat_coefficients import heat_degree, remembered_coefficients, truncation_bound
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

    def reach(self, fastest: float) -> float:
        """The largest slope for eigenvalues up to 2 r, times r; that of the heat is its time."""

    def coefficients(
        self, x: Tensor, operator: HeatOperator, options: HeatOptions
    ) -> tuple[Tensor, Tensor | None]:
        """The coefficients [K + 1, S, G, 1] of the series, and the group [N] of each node."""

    def at_zero(self) -> Tensor:
        """f(0) [S], in float64, on the CPU."""


def evolve(
    x: Tensor, operator: HeatOperator, times: Times | SpectralFilter, options: HeatOptions
) -> Tensor:
    """Diffuse or filter a signal [..., N, D] by an operator -> [..., S, N, D]."""
    if isinstance(times, Times):
        found = series_coefficients(x, operator, times, options)
    else:
        found = times.coefficients(x, operator, options)
    return sum_series(x, operator, *found)


def series_coefficients(
    x: Tensor, operator: HeatOperator, times: Times, options: HeatOptions
) -> tuple[Tensor, Tensor | None]:
    """The coefficients [K + 1, S, G, 1 or D] of :func:`evolve`, and the group [N] of each node."""
    scaling = operator.scaling
    dtype = compute_dtype(x) if operator.dtype is None else operator.dtype
    check_precision(x, scaling, times.reach(scaling.rates[1]), dtype, options)
    t = times.value.unsqueeze(1)
    if scaling.rate is not None:
        t = t * scaling.rate.cpu().double().unsqueeze(-1)
    longest = times.reach(scaling.fastest)
    num_terms = _count_terms(longest, options, dtype, scaling.condition)
    coefficients = remembered_coefficients(t, num_terms, dtype)
    # On CUDA this thread goes on once they are on their way; it need not wait for the GPU.
    coefficients = coefficients.to(x.device, non_blocking=x.is_cuda)
    if scaling.isolated is None:
        return coefficients, scaling.group
    return _with_identity(coefficients), scaling.isolated.long()


def sum_series(
    x: Tensor, operator: HeatOperator, coefficients: Tensor, group: Tensor | None
) -> Tensor:
    """Sum the series for a signal [..., N, D] -> [..., S, N, D].

    Batches fold into the columns, since the operator acts on each column by itself.
    """
    batch, (num_nodes, channels) = x.shape[:-2], x.shape[-2:]
    if len(coefficients) == 1 and not isinstance(operator.matrix, SeriesOperator):
        # Autograd needs a product to see what S is made of, also where the derivative is zero.
        coefficients = F.pad(coefficients, (0, 0) * 3 + (0, 1))
    row_scale = operator.scaling.row_scale
    columns = x if x.dtype == coefficients.dtype else x.to(coefficients.dtype)
    if row_scale is not None:
        columns = row_scale.unsqueeze(-1) * columns
    if batch:
        columns = columns.movedim(-2, 0).reshape(num_nodes, math.prod(batch) * channels)
        if coefficients.size(-1) > 1:
            coefficients = coefficients.repeat(1, 1, 1, math.prod(batch))
    with full_precision(x.device):
        out = operator.matrix.series(columns, coefficients, group)
    if batch:
        out = out.reshape(coefficients.size(1), num_nodes, *batch, channels)
        out = out.movedim((0, 1), (-3, -2))
    if row_scale is not None:
        out = out / row_scale.unsqueeze(-1)
    return out if out.dtype == x.dtype else out.to(x.dtype)


def _with_identity(coefficients: Tensor) -> Tensor:
    """[K + 1, S, 1, C] -> [K + 1, S, 2, C]: the second group of nodes keeps its features."""
    identity = torch.zeros_like(coefficients)
    identity[0] = 1
    return torch.cat([coefficients, identity], dim=2)


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
