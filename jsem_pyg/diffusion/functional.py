"""The functional core: heat diffusion of a signal on a graph."""

from typing import Any

import torch
from torch import Tensor

from .._checks import check_choice, check_finite
from ..kernels.dispatch import find_backend
from ..operators import GraphStructure, laplacian_operator, read_adjacency
from ..operators.laplacian import NORMALIZATIONS
from .chebyshev import (
    check_device,
    check_num_nodes,
    check_signal,
    choose_weight,
    diffuse,
    diffusion_times,
    preferred_backend,
    prepare_weight,
)
from .registered_op import read_edges, registered_heat_diffusion


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

    Under `torch.compile` this is a single op without graph breaks, which checks what eager code
    checks (see :mod:`jsem_pyg.diffusion.registered_op`). Under `torch.autocast` it computes as
    without.

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
        backend: "reference" (plain torch, any device), "torch" (CSR products), "torch_sparse"
            (extra `[sparse]`), "numba" (extra `[numba]`, the fastest on a CPU), or "auto":
            "torch_sparse" for a SparseTensor, else the first of "numba", "torch" and "reference"
            that runs on the device of `x`. Memory is bounded, whatever the degree, with "torch"
            and "numba".

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
    backend = preferred_backend(backend, edge_index)
    if torch.compiler.is_compiling():
        target, source, weight = read_edges(edge_index, edge_weight, x.size(-2))
        options = (degree, tol, normalization, backend)
        out = registered_heat_diffusion(x, times, weight, None, None, target, source, *options)
    else:
        structure, weight = _read_graph(edge_index, edge_weight, x)
        operator = laplacian_operator(structure, weight, normalization)
        series = find_backend(backend, x.device)
        out = diffuse(x, operator, times, series, degree=degree, tol=tol)
    return out if isinstance(t, Tensor) and t.dim() > 0 else out.squeeze(-3)


def _read_graph(
    edge_index: Any, edge_weight: Tensor | None, x: Tensor
) -> tuple[GraphStructure, Tensor]:
    """Prepare a graph, unless it is, and check what it carries: the structure and its weights."""
    fresh = not isinstance(edge_index, GraphStructure)
    if isinstance(edge_index, GraphStructure):
        check_num_nodes(edge_index, x.size(-2))
        structure = edge_index
    else:
        adjacency = read_adjacency(edge_index, x.size(-2))
        structure = GraphStructure.from_adjacency(adjacency, x.size(-2))
        edge_weight = choose_weight(adjacency.weight, edge_weight)
    check_device("edge_index", structure.device, x)
    weight = prepare_weight(structure, edge_weight, x)
    # A GPU has to wait for a look at values, so there it comes with the preparation of a graph.
    if fresh or x.device.type == "cpu":
        check_finite("x", x)
        if edge_weight is not None:
            structure.check_weight(edge_weight)
    return structure, weight
