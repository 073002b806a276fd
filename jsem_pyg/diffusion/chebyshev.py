"""The Chebyshev series of an operator's heat kernel, and the checks that its callers share."""

import logging
import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from .._checks import check_edge_vector, check_float, check_positive
from ..kernels.dispatch import ChebyshevSeries
from ..operators import GraphStructure, HeatOperator
from .heat_coefficients import heat_coefficients, heat_degree, truncation_bound

_log = logging.getLogger(__name__)

# The series is cut at a hundredth of the tolerance: its error is proportional to the signal that
# goes in, and this keeps it below `tol` relative to what comes out, as long as diffusion leaves a
# hundredth of the signal's norm. It costs two or three terms.
_MARGIN = 0.01


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """A region without autocast: a long recurrence would add up the errors of low precision."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def diffuse(
    x: Tensor,
    operator: HeatOperator,
    t: Tensor,
    series: ChebyshevSeries,
    *,
    degree: int | None,
    tol: float,
) -> Tensor:
    """Diffuse [..., N, D] by an operator, for times t [S, 1 or D] -> [..., S, N, D].

    Batches fold into the columns, since the operator acts on each column by itself.
    """
    batch, (num_nodes, channels) = x.shape[:-2], x.shape[-2:]
    dtype = compute_dtype(x)
    signal = x.to(dtype)
    if operator.similarity is not None:
        signal = operator.similarity.unsqueeze(-1) * signal
    columns = signal.movedim(-2, 0).reshape(num_nodes, math.prod(batch) * channels)
    coefficients = _coefficients(operator, t, degree, tol, dtype)
    if coefficients.size(-1) > 1:
        coefficients = coefficients.repeat(1, 1, 1, math.prod(batch))
    group = operator.group
    if operator.fixed is not None:
        coefficients, group = _with_identity(coefficients), operator.fixed.long()
    with full_precision(x.device):
        out = series(operator.csr, operator.values, columns, coefficients, group)
    out = out.reshape(t.size(0), num_nodes, *batch, channels).movedim((0, 1), (-3, -2))
    if operator.similarity is not None:
        out = out / operator.similarity.unsqueeze(-1)
    return out.to(x.dtype)


def _with_identity(coefficients: Tensor) -> Tensor:
    """[K + 1, S, 1, C] -> [K + 1, S, 2, C]: the second group of nodes keeps its features."""
    identity = torch.zeros_like(coefficients)
    identity[0] = 1
    return torch.cat([coefficients, identity], dim=2)


def _coefficients(
    operator: HeatOperator, t: Tensor, degree: int | None, tol: float, dtype: torch.dtype
) -> Tensor:
    """[K + 1, S, G, C] coefficients, for as many terms as asked or as the tolerance needs."""
    times = t.unsqueeze(1)
    if operator.rate is not None:
        times = times * operator.rate.cpu().double().unsqueeze(-1)
    longest = float(times.detach().max()) if times.numel() else 0.0
    check_accuracy(degree, tol)
    if degree is None:
        magnified = operator.condition() or 1.0
        bound = max(_MARGIN * tol, torch.finfo(dtype).eps / 2) / float(magnified)
        degree = heat_degree(longest, bound)
    elif (error := truncation_bound(longest, degree)) > 1e-2:
        _log.warning(
            "degree=%d is too low for t = %.3g: the result can be wrong by %.2g of the signal's "
            "norm. degree=None finds a degree that is high enough.",
            degree,
            longest,
            error,
        )
    return heat_coefficients(times, degree).to(dtype).to(operator.values.device)


def check_accuracy(degree: int | None, tol: float) -> None:
    """Raise unless `degree` is an integer >= 0 or None, and `tol` is positive."""
    check_positive("tol", tol)
    if degree is not None and (type(degree) is not int or degree < 0):
        raise ValueError(f"Expected 'degree' to be an integer >= 0 or None (got {degree!r}).")


def compute_dtype(x: Tensor) -> torch.dtype:
    """The type to compute in: that of x, or float32 for half precision."""
    return x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float32


def check_signal(x: Tensor) -> None:
    """Raise unless `x` is a dense floating-point tensor of shape [..., N, D]."""
    check_float("x", x)
    if x.layout != torch.strided:
        raise ValueError(
            f"Expected 'x' to be dense, since heat soon fills every row (got {x.layout}). To fix "
            "this, pass x.to_dense(), or map the features to fewer channels first."
        )
    if x.dim() < 2:
        raise ValueError(f"Expected 'x' to have shape [..., N, D] (got {list(x.shape)}).")


def check_device(name: str, device: torch.device, x: Tensor) -> None:
    """Raise unless `device`, that of the argument `name`, is the device of x."""
    if device != x.device:
        raise ValueError(
            f"Expected '{name}' to be on the device of 'x', {str(x.device)!r} "
            f"(got {str(device)!r})."
        )


def diffusion_times(t: float | Tensor, x: Tensor) -> Tensor:
    """Check diffusion times and bring them to the shape [S, 1 or D], in float64 on the CPU.

    The degree and the Bessel functions are computed there; some devices have no float64.
    """
    if isinstance(t, float | int):
        # Not `as_tensor`, for which torch.compile would make new code for every number.
        times = torch.zeros((), dtype=torch.float64) + t
    else:
        times = t if isinstance(t, Tensor) else torch.as_tensor(t, dtype=torch.float64)
    if times.dim() > 2 or (times.dim() == 2 and times.size(1) not in (1, x.size(-1))):
        raise ValueError(
            "Expected 't' to be a number, [S] scales or [S, D] scales and channels, with "
            f"D = {x.size(-1)} (got shape {list(times.shape)})."
        )
    times = times.cpu().double()
    values = times.detach()
    # A compiler has no values to look at: there the registered op comes here once more.
    if not torch.compiler.is_compiling() and not bool(((values >= 0) & values.isfinite()).all()):
        raise ValueError(f"Expected 't' to be finite and >= 0 (got {values.tolist()}).")
    return times if times.dim() == 2 else times.reshape(-1, 1)


def prepare_weight(structure: GraphStructure, edge_weight: Tensor | None, x: Tensor) -> Tensor:
    """The weights in the type of the computation, or ones where there are none."""
    dtype = compute_dtype(x)
    if edge_weight is None:
        return torch.ones(structure.num_edges, dtype=dtype, device=x.device)
    check_edge_vector("edge_weight", edge_weight, structure.num_edges)
    check_device("edge_weight", edge_weight.device, x)
    return edge_weight.to(dtype)


def preferred_backend(backend: str, edge_index: Any) -> str:
    """What "auto" means for this form of graph: a SparseTensor brings its own backend."""
    is_sparse_tensor = type(edge_index).__name__ == "SparseTensor"
    return "torch_sparse" if backend == "auto" and is_sparse_tensor else backend


def check_num_nodes(structure: GraphStructure, num_nodes: int) -> None:
    """Raise unless a prepared structure has as many nodes as x."""
    if structure.num_nodes != num_nodes:
        raise ValueError(
            f"Expected 'x' to have {structure.num_nodes} nodes, as the prepared 'edge_index' "
            f"(got {num_nodes})."
        )


def choose_weight(stored: Tensor | None, given: Tensor | None) -> Tensor | None:
    """The weights that a sparse tensor stores or those given beside it, but not both."""
    if stored is not None and given is not None:
        raise ValueError(
            "Expected 'edge_weight' to be None where the sparse 'edge_index' has values already "
            f"(got both, {stored.numel()} values and 'edge_weight' {list(given.shape)})."
        )
    return given if stored is None else stored
