"""Graph -> operator -> coefficients -> series -> result: the steps of every diffusion.

An operator is made in the narrowest type that keeps the tolerance. How rounding grows is in
docs/mathematics.md, "Precision": in float32 it is a relative error of 1e-6 at t = 10, for a
Laplacian of rate one, so longer times are computed in float64.
"""

import logging
import math
from functools import partial
from typing import NamedTuple, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad

from ..graph.adjacency import Adjacency
from ..graph.structure import GraphRows, GraphStructure
from ..kernels.chebyshev import SeriesOperator
from ..kernels.torch_func import full_precision, is_transformed
from ..operators import HeatOperator
from ..operators.laplacian import MANY_SLOTS, MakeMatrix, laplacian_entries, operator_of_entries
from .options import HeatOptions
from .times import LONGEST, Times

_log = logging.getLogger(__name__)

_ROUNDING = 0.8
_OUTPUT_ROUNDING = 8  # rounding units of the type of x, to which the result is rounded anyway


class SpectralFunction(Protocol):
    """A function of the Laplacian: diffusion times, or a filter of :mod:`.filters`."""

    def slope(self, rate: float) -> float:
        """Return the largest slope for eigenvalues up to 2 r, times r; that of heat is its time."""

    def coefficients(
        self, operator: HeatOperator, dtype: torch.dtype, options: HeatOptions
    ) -> Tensor:
        """Compute the coefficients [K + 1, S, 1 or D] of the series, in float64, on the CPU."""

    def at_zero(self) -> Tensor:
        """Return f(0) [S], by which isolated nodes are multiplied, on the CPU."""


class CompiledGraph(NamedTuple):
    """A graph in compiled code, in place of its operator: neither prepared nor checked."""

    adjacency: Adjacency
    edge_weight: Tensor | None = None  # [E]; None: ones
    conductance: Tensor | None = None  # [E] or None
    edge_attr: Tensor | None = None  # [E, F] or None, checked by the op and not used


def heat_operator(
    structure: GraphRows,
    edge_weight: Tensor | None,
    given: torch.dtype,
    function: SpectralFunction,
    options: HeatOptions,
    conductance: Tensor | None = None,
    node_mass: Tensor | None = None,
    make: MakeMatrix | None = None,
) -> HeatOperator:
    """Make the operator of weights [E] times conductances [E], precise enough.

    That is for signals of the type `given`, and for the times or the filter. `make` makes S of
    its entries; None: a kernel of the backend.
    """
    values = edge_weight, conductance, node_mass
    kind = options.normalization, options.self_loop, *(each is None for each in values)
    make_entries = partial(
        laplacian_entries, structure, edge_weight, options.normalization, conductance,
        options.self_loop, node_mass,
    )  # fmt: skip
    is_kept = make is None and _may_be_kept(structure, values)
    entries = structure.once(kind, make_entries, values) if is_kept else make_entries()
    dtype = choose_dtype(given, structure.device, function.slope(entries.rate), options.tol)
    make_matrix = make or partial(structure.make_matrix, backend=options.backend)
    make_operator = partial(operator_of_entries, entries, dtype, make_matrix)
    key = *kind, dtype, options.backend
    return structure.once(key, make_operator, [entries]) if is_kept else make_operator()


def _may_be_kept(structure: GraphRows, values: tuple[Tensor | None, ...]) -> bool:
    """Return True if no values are given, or if comparing them with the last ones is cheap.

    A GPU would wait for that, large graphs take memory, and processes wait for each other.
    """
    given = [each for each in values if each is not None]
    are_fixed = all(isinstance(each, Tensor) and not each.requires_grad for each in given)
    is_small = isinstance(structure, GraphStructure) and structure.num_slots < MANY_SLOTS
    is_cheap = are_fixed and is_small and all(each.device.type == "cpu" for each in given)
    is_plain = not is_transformed() and forward_ad._current_level < 0  # no dual numbers
    return not given or (is_cheap and is_plain)


def choose_dtype(given: torch.dtype, device: torch.device, slope: float, tol: float) -> torch.dtype:
    """Choose the type for signals of a type, and a time or a filter's slope in units of the rate.

    Example:
        >>> choose_dtype(torch.float32, torch.device("cpu"), 1e3, tol=1e-6)
        torch.float64
    """
    dtype = torch.promote_types(given, torch.float32)
    is_enough = device.type == "mps" or is_precise(dtype, given, slope, tol)  # MPS has no float64
    return dtype if is_enough else torch.float64


def is_precise(dtype: torch.dtype, given: torch.dtype, slope: float, tol: float) -> bool:
    """Return True if rounding in `dtype` goes unnoticed in a result of the type `given`."""
    return rounding_error(dtype, slope) <= max(tol, _OUTPUT_ROUNDING * torch.finfo(given).eps)


def rounding_error(dtype: torch.dtype, slope: float) -> float:
    """Return the relative error that rounding makes, for a time in units of the rate.

    Example:
        >>> f"{rounding_error(torch.float32, 1e4):.0e}"
        '1e-03'
    """
    return _ROUNDING * torch.finfo(dtype).eps * max(slope, 1.0)


def evolve(
    x: Tensor, operator: HeatOperator | CompiledGraph, times: SpectralFunction, options: HeatOptions
) -> Tensor:
    """Diffuse or filter a signal [..., N, D] by an operator -> [..., S, N, D].

    In compiled code by the op of :mod:`.registered_op`.
    """
    if isinstance(operator, HeatOperator):
        return _evolve(x, operator, times, options)
    (row, col, *_), edge_weight, conductance, edge_attr = operator
    inputs = (x, cast(Times, times).value, edge_weight, conductance)
    is_learning = torch.is_grad_enabled() and any(
        each is not None and each.requires_grad for each in inputs
    )
    out, _ = torch.ops.jsem_pyg.heat_diffusion(
        *inputs, edge_attr, row, col,
        options.degree, options.tol, options.normalization, options.backend, options.self_loop,
        is_learning and options.normalization != "rw",
    )  # fmt: skip
    return out


@torch.compiler.disable
def _evolve(
    x: Tensor, operator: HeatOperator, times: SpectralFunction, options: HeatOptions
) -> Tensor:
    coefficients = series_coefficients(operator, times, options, x.dtype)
    at_zero = None if operator.isolated is None else times.at_zero()
    return sum_series(x, operator, coefficients, at_zero)


def series_coefficients(
    operator: HeatOperator, function: SpectralFunction, options: HeatOptions, given: torch.dtype
) -> Tensor:
    """Compute the coefficients [K + 1, S, 1 or D] of a series for signals of the type `given`."""
    rate = operator.rate
    dtype = operator.dtype or torch.promote_types(given, torch.float32)
    coefficients = function.coefficients(operator, dtype, options)
    slope = min(function.slope(rate), LONGEST)
    if not is_precise(dtype, given, slope, options.tol):
        _log.warning(
            "rounding in %s can change the result by %.2g of its norm at t = %.3g (of a filter: "
            "its largest slope), more than tol = %.2g allows.",
            dtype, rounding_error(dtype, slope), slope / rate, options.tol,
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
