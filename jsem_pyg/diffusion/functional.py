"""Diffuse a signal on a graph: heat diffusion as a function."""

from typing import Any

import torch
from torch import Tensor

from .._checks import as_argument, check_float, check_labels, check_node_index
from ..graph.reader import GraphReader, count_nodes, read_edges
from ..kernels.torch_func import compute_dtype, eager, is_transformed
from ..operators import HeatOperator
from .evolve import CompiledGraph, evolve, heat_operator
from .options import HeatOptions
from .times import Times, check_signal, read_times, squeeze_scales

_READER = GraphReader(keeps=False)  # it remembers nothing: who calls often prepares a structure


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
    node_mass: Tensor | None = None,
) -> Tensor:
    r"""Diffuse a signal on a weighted graph for the time t.

    .. math::
        \mathbf{Y} = e^{-t \mathbf{L}} \mathbf{X} \approx
        \sum_{k=0}^{K} c_k(t) \, T_k(\mathbf{S}) \, \mathbf{X}

    with :math:`\mathbf{L} = \mathbf{I} - \mathbf{S}` the Laplacian of the graph, T_k the Chebyshev
    polynomials, and c_k from :func:`~jsem_pyg.diffusion.heat_coefficients`. Differentiable in `x`,
    `edge_weight` and `t` once; with `backend="reference"` twice, and by the transforms of
    `torch.func` (but graphs are not mapped over). An isolated node keeps its features.

    Under `torch.compile` and `torch.export` this is a single op without graph breaks, which checks
    what eager code checks (see :mod:`jsem_pyg.diffusion.registered_op`). Under `torch.autocast` it
    computes as without.

    Args:
        x: [..., N, D] signals; leading dimensions are batches on the same graph. Half precision is
            computed in float32.
        edge_index: the graph, with both directions of every edge and no self-loops: a [2, E]
            tensor, a `torch_sparse.SparseTensor` or torch sparse tensor [N, N], or a
            :class:`~jsem_pyg.graph.GraphStructure`, which saves sorting and checking it again.
        edge_weight: [E] non-negative weights, the same in both directions (the operator takes the
            mean of both, so each gets half of their gradient). None: the values of the sparse
            tensor, or ones. Sparse tensors order edges as they store them.
        t: diffusion time >= 0, in units of the Laplacian: a number or 0-d tensor, [S] scales, or
            [S, D] with a time for every scale and channel; up to 1e4 over the fastest rate, which
            is one, or with ``normalization=None`` the largest mean degree of an edge's ends.
        degree: K, the number of products with S. None: the smallest that `tol` allows.
        tol: the relative error allowed. The series is cut where
            :math:`||\mathrm{error}|| \le 0.01 \, \mathrm{tol} \, ||\mathbf{X}||` is certain, but
            not below the rounding of x's type. Where rounding in float32 could exceed `tol`
            (at 1e-6: beyond t = 10 over the fastest rate) all is computed in float64, which takes
            twice the time and memory.
        normalization: "sym" for :math:`\mathbf{L} = \mathbf{I} - \mathbf{D}^{-1/2} \mathbf{W}
            \mathbf{D}^{-1/2}`, "rw" for :math:`\mathbf{I} - \mathbf{D}^{-1} \mathbf{W}`, None for
            :math:`\mathbf{D} - \mathbf{W}`.
        backend: "numba" (CPU), "triton" (CUDA), "torch" (CSR products on both), "torch_sparse"
            (likewise, the extra), "reference" (plain torch on any device), or "auto", the first of
            these that can run. Memory is bounded, whatever the degree, except with the reference.
        node_mass: [N] positive masses M of the nodes, such as the areas of a mesh's vertices, for
            :math:`\mathbf{L} = \mathbf{M}^{-1} (\mathbf{D} - \mathbf{W})`, with
            ``normalization=None``; differentiable. None: ones.

    Returns:
        A tensor like `x`; [..., S, N, D] if `t` has scales.

    Raises:
        NotImplementedError: if the backend lacks a second derivative or a transform; it names the
            one that has them.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> x = torch.tensor([[1.0], [0.0], [0.0]])
        >>> y = heat_diffusion(x, edge_index, t=1.0, normalization=None)
        >>> torch.allclose(y.sum(), x.sum())  # heat is conserved
        True
    """
    check_signal(x)
    options = HeatOptions(degree, tol, normalization, backend)
    times = read_times(t, x.size(-1))
    if torch.compiler.is_compiling() and not is_transformed():
        if node_mass is not None:
            raise NotImplementedError(
                "Expected no 'node_mass' under torch.compile and torch.export. To fix this, call "
                "heat_diffusion without them."
            )
        operator: Any = CompiledGraph(*read_edges(edge_index, edge_weight, x.size(-2)))
    else:
        operator = _operator(x, edge_index, edge_weight, times, options, node_mass)
    return squeeze_scales(evolve(x, operator, times, options), t)


@eager
def _operator(
    x: Tensor,
    edge_index: Any,
    edge_weight: Tensor | None,
    times: Times,
    options: HeatOptions,
    node_mass: Tensor | None,
) -> HeatOperator:
    """Read the graph, and make its operator."""
    structure, weight = _READER.read(edge_index, x, edge_weight)
    return heat_operator(structure, weight, x.dtype, times, options, node_mass=node_mass)


def heat_kernel_columns(
    edge_index: Any,
    nodes: Tensor,
    edge_weight: Tensor | None = None,
    t: float | Tensor = 1.0,
    *,
    num_nodes: int | None = None,
    degree: int | None = None,
    tol: float = 1e-6,
    normalization: str | None = "sym",
    backend: str = "auto",
) -> Tensor:
    r"""Compute columns of the heat kernel: how the heat of single nodes spreads.

    .. math::
        \mathbf{K}_{:, m} = e^{-t \mathbf{L}} \mathbf{e}_{n_m}

    with the indicator vectors :math:`\mathbf{e}`. Signatures, diffusion distances and costs of
    alignments are made of these. All columns and scales share one series. Differentiable in
    `edge_weight` and `t`.

    Args:
        edge_index: the graph, as in :func:`heat_diffusion`.
        nodes: [M] integers in [0, N), whose columns are computed; repeated ones are computed
            again.
        edge_weight: [E] non-negative weights, the same in both directions; None means ones.
        t: diffusion time >= 0: a number or 0-d tensor, or [S] scales.
        num_nodes: N, where isolated nodes may come after the last edge. None: that of a structure
            or sparse tensor, or `EdgeIndex`, or the largest index in `edge_index` and `nodes` + 1.
        degree: as in :func:`heat_diffusion`, like all that follow.
        tol: the relative error allowed.
        normalization: "sym", "rw" or None.
        backend: what evaluates the series.

    Returns:
        [N, M], or [S, N, M] if `t` has scales, in the type of `edge_weight` (torch's default type
        without it).

    Source: Coifman and Lafon, "Diffusion maps", Applied and Computational Harmonic Analysis 21,
    2006.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> columns = heat_kernel_columns(edge_index, torch.tensor([0, 2]), t=1.0)
        >>> columns.shape
        torch.Size([3, 2])
        >>> torch.allclose(columns[1, 0], columns[1, 1])  # node 1 lies between 0 and 2
        True
    """
    check_labels("nodes", nodes)
    if edge_weight is not None:
        check_float("edge_weight", edge_weight)
    size = count_nodes(edge_index, num_nodes, nodes)
    if torch.compiler.is_compiling():  # which cannot look at them
        torch._assert_async(((nodes >= 0) & (nodes < size)).all(), "Expected 'nodes' in [0, N)")
    else:
        check_node_index("nodes", nodes, size)
    dtype = compute_dtype(edge_weight)
    indicators = torch.zeros(size, nodes.numel(), dtype=dtype, device=nodes.device)
    indicators[nodes.long(), torch.arange(nodes.numel(), device=nodes.device)] = 1
    with as_argument("nodes", "x"):
        return heat_diffusion(
            indicators,
            edge_index,
            edge_weight,
            t,
            degree=degree,
            tol=tol,
            normalization=normalization,
            backend=backend,
        )
