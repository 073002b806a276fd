"""The functional core: heat diffusion of a signal on a graph, by a Chebyshev series."""

import logging
import math
from typing import Any

import torch
from torch import Tensor

from .._checks import check_choice, check_edge_vector, check_finite, check_float, check_positive
from ..kernels.dispatch import ChebyshevSeries, find_backend
from ..operators import GraphStructure, HeatOperator, laplacian_operator, read_adjacency
from ..operators.laplacian import NORMALIZATIONS
from .heat_coefficients import heat_coefficients, heat_degree, truncation_bound

_log = logging.getLogger(__name__)

# The series is cut at a hundredth of the tolerance: its error is proportional to the signal that
# goes in, and this keeps it below `tol` relative to what comes out, as long as diffusion leaves a
# hundredth of the signal's norm. It costs two or three terms.
_MARGIN = 0.01


def heat_diffusion(
    x: Tensor,
    edge_index: Any,
    edge_weight: Tensor | None = None,
    t: float | Tensor = 1.0,
    *,
    degree: int | None = None,
    tol: float = 1e-6,
    normalization: str | None = "sym",
    backend: str = "auto",
) -> Tensor:
    r"""Diffuse a signal on a weighted graph for the time t.

    .. math::
        \mathbf{Y} = e^{-t \mathbf{L}} \mathbf{X} \approx
        \sum_{k=0}^{K} c_k(t) \, T_k(\mathbf{S}) \, \mathbf{X}

    with :math:`\mathbf{L} = \mathbf{I} - \mathbf{S}` the Laplacian of the graph, T_k the Chebyshev
    polynomials, and c_k from :func:`~jsem_pyg.diffusion.heat_coefficients`. Differentiable in `x`,
    `edge_weight` and `t`; twice with `backend="reference"`. An isolated node keeps its features.

    Args:
        x: [..., N, D] signals; leading dimensions are batches on the same graph. Half precision is
            computed in float32.
        edge_index: the graph, with both directions of every edge and no self-loops: a [2, E]
            tensor, a `torch_sparse.SparseTensor` or torch sparse tensor [N, N], or a
            :class:`~jsem_pyg.operators.GraphStructure`, which saves sorting and checking it again.
        edge_weight: [E] non-negative weights, the same in both directions (the operator takes the
            mean of both, so each gets half of their gradient). None: the values of the sparse
            tensor, or ones. Sparse tensors order edges as they store them.
        t: diffusion time >= 0, in units of the Laplacian: a number or 0-d tensor, [S] scales, or
            [S, D] with a time for every scale and channel.
        degree: K, the number of products with S. None: the smallest that `tol` allows.
        tol: the relative error allowed. The series is cut where
            :math:`||\mathrm{error}|| \le 0.01 \, \mathrm{tol} \, ||\mathbf{X}||` is certain, but
            not below the rounding of x's type.
        normalization: "sym" for :math:`\mathbf{L} = \mathbf{I} - \mathbf{D}^{-1/2} \mathbf{W}
            \mathbf{D}^{-1/2}`, "rw" for :math:`\mathbf{I} - \mathbf{D}^{-1} \mathbf{W}`, None for
            :math:`\mathbf{D} - \mathbf{W}`.
        backend: "reference" (plain torch, any device), "torch" (CSR products, bounded memory),
            "torch_sparse" (extra `[sparse]`), or "auto": "torch_sparse" for a SparseTensor, else
            "torch" where it runs, else "reference".

    Returns:
        A tensor like `x`; [..., S, N, D] if `t` has scales.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if the graph is directed or out of range, has self-loops or negative weights, if
            a value is NaN or infinite, if shapes do not fit, or if the backend cannot run.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> x = torch.tensor([[1.0], [0.0], [0.0]])
        >>> y = heat_diffusion(x, edge_index, t=1.0, normalization=None)
        >>> torch.allclose(y.sum(), x.sum())  # heat is conserved
        True
    """
    check_signal(x)
    check_choice("normalization", normalization, NORMALIZATIONS)
    times = diffusion_times(t, x)
    structure, edge_weight, fresh = _read_graph(edge_index, edge_weight, x.size(-2))
    check_device("edge_index", structure.device, x)
    weight = prepare_weight(structure, edge_weight, x)
    # A GPU has to wait for a look at values, so there it comes with the preparation of a graph.
    if fresh or x.device.type == "cpu":
        check_finite("x", x)
        if edge_weight is not None:
            structure.check_weight(edge_weight)
    operator = laplacian_operator(structure, weight, normalization)
    series = find_backend(preferred_backend(backend, edge_index), x.device)
    out = diffuse(x, operator, times, series, degree=degree, tol=tol)
    return out if isinstance(t, Tensor) and t.dim() > 0 else out.squeeze(-3)


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
    out = series(operator.csr, operator.values, columns, coefficients, operator.group)
    out = out.reshape(t.size(0), num_nodes, *batch, channels).movedim((0, 1), (-3, -2))
    if operator.similarity is not None:
        out = out / operator.similarity.unsqueeze(-1)
    if operator.fixed is not None:
        out = torch.where(operator.fixed.unsqueeze(-1), x.to(dtype).unsqueeze(-3), out)
    return out.to(x.dtype)


def _coefficients(
    operator: HeatOperator, t: Tensor, degree: int | None, tol: float, dtype: torch.dtype
) -> Tensor:
    """[K + 1, S, G, C] coefficients, for as many terms as asked or as the tolerance needs."""
    times = t.double().unsqueeze(1)
    if operator.rate is not None:
        times = times * operator.rate.double().unsqueeze(-1)
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
    return heat_coefficients(times, degree).to(dtype)


def check_accuracy(degree: int | None, tol: float) -> None:
    """Raise unless `degree` is an integer >= 0 or None, and `tol` is positive."""
    check_positive("tol", tol)
    if degree is not None and (type(degree) is not int or degree < 0):
        raise ValueError(f"Expected 'degree' to be an integer >= 0 or None (got {degree!r}).")


def compute_dtype(x: Tensor) -> torch.dtype:
    """The type to compute in: that of x, or float32 for half precision."""
    return x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float32


def check_signal(x: Tensor) -> None:
    """Raise unless `x` is a floating-point tensor of shape [..., N, D]."""
    check_float("x", x)
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
    """Check diffusion times and bring them to the shape [S, 1 or D], on the device of x."""
    times = t if isinstance(t, Tensor) else torch.as_tensor(t, dtype=torch.float64)
    if times.dim() > 2 or (times.dim() == 2 and times.size(1) not in (1, x.size(-1))):
        raise ValueError(
            "Expected 't' to be a number, [S] scales or [S, D] scales and channels, with "
            f"D = {x.size(-1)} (got shape {list(times.shape)})."
        )
    values = times.detach().double()
    if not bool(((values >= 0) & values.isfinite()).all()):
        raise ValueError(f"Expected 't' to be finite and >= 0 (got {values.tolist()}).")
    return (times if times.dim() == 2 else times.reshape(-1, 1)).to(x.device)


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


def _read_graph(
    edge_index: Any, edge_weight: Tensor | None, num_nodes: int
) -> tuple[GraphStructure, Tensor | None, bool]:
    """The structure, the weights, and whether they are seen for the first time."""
    if isinstance(edge_index, GraphStructure):
        check_num_nodes(edge_index, num_nodes)
        return edge_index, edge_weight, False
    adjacency = read_adjacency(edge_index, num_nodes)
    structure = GraphStructure.from_adjacency(adjacency, num_nodes)
    return structure, choose_weight(adjacency.weight, edge_weight), True


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
