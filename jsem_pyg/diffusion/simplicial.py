"""Diffuse heat on the edges of a graph: flows that the Hodge Laplacian smooths out."""

from typing import Any

from torch import Tensor

from .._checks import check_edge_vector
from .._precision import compute_dtype, full_precision
from ..graph import SimplicialStructure
from ..graph.prepare import GraphReader
from ..kernels.table import lists_backends
from ..kernels.torch_func import eager
from ..operators import hodge_operator
from ..operators.factored import FACTORED
from .evolve import SpectralFilter, evolve
from .options import HeatOptions
from .precision import choose_dtype
from .times import Times, check_signal, read_times, squeeze_scales

_READER = GraphReader(size=0)  # it remembers nothing: who calls often prepares a structure


@lists_backends(FACTORED)
@eager
def simplicial_diffusion(
    x: Tensor,
    edge_index: Any,
    triangles: Tensor | None = None,
    edge_weight: Tensor | None = None,
    triangle_weight: Tensor | None = None,
    t: float | Tensor = 1.0,
    t_up: float | Tensor | None = None,
    *,
    degree: int | None = None,
    tol: float = 1e-6,
    normalization: str | None = None,
    backend: str = "auto",
) -> Tensor:
    r"""Diffuse signals on the edges of a graph, by the Hodge Laplacian.

    .. math::
        \mathbf{Y} = e^{-t \mathbf{L}_{\mathrm{down}} - t_{\mathrm{up}} \mathbf{L}_{\mathrm{up}}}
        \mathbf{X}, \qquad \mathbf{L}_{\mathrm{down}} = \mathbf{B}_1^{\top} \mathbf{B}_1, \quad
        \mathbf{L}_{\mathrm{up}} = \mathbf{B}_2 \mathbf{B}_2^{\top}

    with the boundaries of edges and triangles (:mod:`jsem_pyg.graph.simplicial_structure`), and
    with weights as in :mod:`jsem_pyg.operators.hodge`. A flow has three parts that are orthogonal,
    its Hodge decomposition: differences of a potential of the nodes (gradient), which decay by
    L_down; flows around filled triangles (curl), which decay by L_up; and what flows around the
    holes (harmonic), which stays. Differentiable in `x`, the weights and the times; twice with
    `backend="reference"`.

    Args:
        x: [..., E, D] flows, a row for each column of `edge_index`, positive along the column's
            direction; leading dimensions are batches on the same edges.
        edge_index: [2, E] each edge once, in either orientation, which says how its flow is
            counted; or every edge in both directions, where the flow of (j, i) must be that of
            (i, j) with the other sign. Or a :class:`~jsem_pyg.graph.SimplicialStructure`, which
            saves sorting and checking, and finding the triangles.
        triangles: [3, F] the nodes of the filled triangles, such as PyG's `data.face`; None: all
            triangles of the graph.
        edge_weight: [E] positive, the same in both directions; None: ones, or what
            `normalization` says.
        triangle_weight: [F] non-negative; None: ones.
        t: diffusion time >= 0 of gradients, in units of the Laplacian: a number or 0-d tensor, [S]
            scales, or [S, D] with a time for every scale and channel.
        t_up: that of curls, a number, or as `t`; None: `t`, the heat of L_down + L_up.
        degree: the number of products with S. None: the smallest that `tol` allows.
        tol: the relative error allowed, see :func:`~jsem_pyg.diffusion.heat_diffusion`.
        normalization: None, "sym" or "rw", see :func:`~jsem_pyg.operators.hodge_operator`.
        backend: {backends}.

    Returns:
        A tensor like `x`; [..., S, E, D] if `t` has scales.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if the edges or triangles are malformed, `x` is no flow, a value is NaN or
            infinite, a weight is out of its range, or shapes do not fit.

    Example:
        A unit of traffic from 0 to 2 on a ring of five nodes, whose chord (0, 2) closes a triangle
        with 0, 1, 2. Long times take one part away after the other.

        >>> import torch
        >>> edge_index = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]])
        >>> x = torch.tensor([[1.0], [1.0], [0.0], [0.0], [0.0], [0.0]])
        >>> divergence_free = simplicial_diffusion(x, edge_index, t=100.0, t_up=0.0)
        >>> gradient = x - divergence_free
        >>> curl_free = simplicial_diffusion(x, edge_index, t=0.0, t_up=100.0)
        >>> curl, harmonic = x - curl_free, x - gradient - (x - curl_free)
        >>> torch.stack([gradient, curl, harmonic]).squeeze(-1).mul(33).round().int()
        tensor([[  9,   9,  -6,  -6,  -6,  18],
                [ 22,  22,   0,   0,   0, -22],
                [  2,   2,   6,   6,   6,   4]], dtype=torch.int32)
    """
    check_signal(x)
    options = HeatOptions(degree, tol, normalization, backend, domain="complex")
    times = (
        read_times(t, x.size(-1)),
        read_times(t if t_up is None else t_up, x.size(-1), "t_up"),
    )
    scales = [each.value.size(0) for each in times]
    if scales[1] not in (1, scales[0]):
        raise ValueError(
            f"Expected 't_up' to be a number, or to have as many scales as 't', {scales[0]} "
            f"(got {scales[1]})."
        )
    weighted = read_complex(_READER, edge_index, x, triangles, edge_weight, triangle_weight)
    return squeeze_scales(simplicial_heat(x, weighted, *times, options), t)


# A structure, and the weights of its edges [M] and triangles [F]; None: not given.
WeightedComplex = tuple[SimplicialStructure, Tensor | None, Tensor | None]


def read_complex(
    reader: GraphReader,
    edge_index: Any,
    x: Tensor,
    triangles: Tensor | None,
    edge_weight: Tensor | None,
    triangle_weight: Tensor | None,
) -> WeightedComplex:
    """Prepare or recall the complex of flows x, and check what comes with it."""
    if not isinstance(edge_index, SimplicialStructure):
        given = (edge_index,) if triangles is None else (edge_index, triangles)
        structure = reader.recall(
            given, lambda: SimplicialStructure(edge_index, triangles=triangles)
        )
    elif triangles is None:
        structure = edge_index
    else:
        raise ValueError(
            "Expected 'triangles' to be None where 'edge_index' is a SimplicialStructure, which "
            f"has its own (got {type(triangles).__name__})."
        )
    structure.check_flow_shape(x)
    reader.check_signal(structure, x, structure.check_flow)
    if edge_weight is not None:
        check_edge_vector("edge_weight", edge_weight, structure.num_columns)
        reader.check(structure, x, "edge_weight", edge_weight, structure.check_edge_weight)
        edge_weight = structure.mean_of_columns(edge_weight)
    if triangle_weight is not None:
        structure.check_triangle_shape(triangle_weight)
        check = structure.check_triangle_weight
        reader.check(structure, x, "triangle_weight", triangle_weight, check)
    return structure, edge_weight, triangle_weight


def simplicial_heat(
    x: Tensor,
    weighted: WeightedComplex,
    times: Times | SpectralFilter,
    t_up: Times | SpectralFilter,
    options: HeatOptions,
) -> Tensor:
    """Diffuse or filter [..., E, D] on edges -> [..., S, E, D]."""
    structure, edge_weight, triangle_weight = weighted
    weights = edge_weight, triangle_weight

    def heat(part: str, t: Times | SpectralFilter) -> Tensor:
        choices = options.normalization, options.backend
        operator = hodge_operator(structure, part, *weights, *choices, compute_dtype(x))
        precise = choose_dtype(x.dtype, x.device, t.reach(operator.scaling.rate), options.tol)
        if precise != operator.dtype:
            operator = hodge_operator(structure, part, *weights, *choices, precise)
        return evolve(flow, operator, t, options)

    with full_precision(x.device):
        flow = structure.to_edges(x.to(compute_dtype(x)))
        out = heat("down", times)
        if structure.num_triangles:
            # The product of both parts of the Laplacian is zero: so is that of what they change.
            kept = flow.unsqueeze(-3)
            if not isinstance(times, Times):
                kept = times.at_zero().to(flow).reshape(-1, 1, 1) * kept
            out = out + heat("up", t_up) - kept
        else:
            up = [t_up.value] if isinstance(t_up, Times) else []
            for unused in (*up, *weights):  # a gradient, if only of zero
                out = out if unused is None else out + (0 * unused.sum()).to(out)
        return structure.to_columns(out).to(x.dtype)
