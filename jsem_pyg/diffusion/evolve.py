"""Operator -> coefficients -> series -> result: the steps of every diffusion."""

import logging
import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from .._precision import full_precision
from ..kernels.chebyshev.series import SeriesOperator
from ..operators import HeatOperator
from .heat_coefficients import LONGEST
from .options import HeatOptions
from .precision import is_precise, rounding_error

_log = logging.getLogger(__name__)


class SpectralFunction(Protocol):
    """A function of the Laplacian: diffusion times, or a filter of :mod:`.filters`."""

    def reach(self, rate: float) -> float:
        """Return the largest slope for eigenvalues up to 2 r, times r; that of heat is its time."""

    def coefficients(
        self, operator: HeatOperator, dtype: torch.dtype, options: HeatOptions
    ) -> Tensor:
        """Compute the coefficients [K + 1, S, 1 or D] of the series, in float64, on the CPU."""

    def at_zero(self) -> Tensor:
        """Return f(0) [S], by which isolated nodes are multiplied, on the CPU."""


def evolve(
    x: Tensor, operator: HeatOperator, times: SpectralFunction, options: HeatOptions
) -> Tensor:
    """Diffuse or filter a signal [..., N, D] by an operator -> [..., S, N, D]."""
    coefficients = series_coefficients(operator, times, options, x.dtype)
    return sum_series(x, operator, coefficients, times.at_zero())


def series_coefficients(
    operator: HeatOperator, function: SpectralFunction, options: HeatOptions, given: torch.dtype
) -> Tensor:
    """Compute the coefficients [K + 1, S, 1 or D] of a series for signals of the type `given`."""
    rate = operator.rate
    dtype = operator.dtype or torch.promote_types(given, torch.float32)
    coefficients = function.coefficients(operator, dtype, options)
    reach = min(function.reach(rate), LONGEST)
    if not is_precise(dtype, given, reach, options.tol):
        _log.warning(
            "rounding in %s can change the result by %.2g of its norm at t = %.3g (of a filter: "
            "its largest slope), more than tol = %.2g allows.",
            dtype, rounding_error(dtype, reach), reach / rate, options.tol,
        )  # fmt: skip
    return coefficients.to(dtype)


def sum_series(
    x: Tensor, operator: HeatOperator, coefficients: Tensor, at_zero: Tensor | None = None
) -> Tensor:
    """Sum the series for a signal [..., N, D] -> [..., S, N, D].

    Batches fold into the columns, since the operator acts on each column by itself. Isolated nodes
    keep their features, times f(0) [S] of a filter.
    """
    batch, (num_nodes, channels) = x.shape[:-2], x.shape[-2:]
    # On CUDA this thread goes on once they are on their way; it need not wait for the GPU.
    coefficients = coefficients.to(x.device, non_blocking=x.is_cuda)
    if len(coefficients) == 1 and not isinstance(operator.matrix, SeriesOperator):
        # Autograd needs a product to see what S is made of, even if the derivative is zero.
        coefficients = F.pad(coefficients, (0, 0) * 2 + (0, 1))
    row_scale, isolated = operator.row_scale, operator.isolated
    columns = x.to(coefficients.dtype)
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
    out = out.to(x.dtype)
    if isolated is None:
        return out
    kept = x.unsqueeze(-3)
    if at_zero is not None:
        kept = at_zero.to(x).reshape(-1, 1, 1) * kept
    return torch.where(isolated.unsqueeze(-1), kept, out)
