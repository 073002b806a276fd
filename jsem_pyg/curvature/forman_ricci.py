"""Forman-Ricci curvature of the edges of an undirected graph, in three forms, and overlap."""

import torch
from torch import Tensor

from .._checks import check_choice, check_edge_index_shape, check_edge_vector, check_weight_range
from ..graph import GraphStructure
from ..graph.reader import read_structure
from ..kernels.triangles import forman, triangle_counts
from ..kernels.triangles.squares import square_counts

METHODS = ("augmented", "1d", "balanced")


def forman_curvature(
    edge_index: Tensor | GraphStructure,
    edge_weight: Tensor | None = None,
    num_nodes: int | None = None,
    method: str = "augmented",
) -> Tensor:
    r"""Compute the curvature of every edge: very negative on bridges, higher inside clusters.

    With node and face weights of one, the edge e = (i, j) of weight w_e has

    .. math::
        F_{1d}(e) &= 2 - \sqrt{w_e} \Big(\sum_{v \sim i, v \ne j} w_{iv}^{-1/2}
            + \sum_{v \sim j, v \ne i} w_{jv}^{-1/2}\Big) \\
        F_{aug}(e) &= 2 + w_e^2 |\Delta| - \sqrt{w_e} \Big(
            \sum_{v \sim i, v \ne j, v \notin \Delta} w_{iv}^{-1/2}
            + \sum_{v \sim j, v \ne i, v \notin \Delta} w_{jv}^{-1/2}\Big) \\
        F_{bal}(e) &= \frac{2}{d_i} + \frac{2}{d_j} - 2 + \frac{2 |\Delta|}{\max(d_i, d_j)}
            + \frac{|\Delta|}{\min(d_i, d_j)} + \frac{|\square_i| + |\square_j|}
            {\gamma_{max} \max(d_i, d_j)}

    with the common neighbours :math:`\Delta` of i and j, the squares :math:`\square` without
    diagonals on the edge and their degeneracy :math:`\gamma_{max}`; F_bal ignores weights and is
    zero if the smaller degree is one. All are computed in float64. F_aug depends on the unit of
    the weights, which it squares: they should be of order one, as in a neighbour graph.

    The curvature of a graph on a GPU is computed on the CPU. Time grows with the number of edges
    times the arboricity of the graph, for the balanced form with the number of squares; memory with
    the number of edges.

    Args:
        edge_index: [2, E] integer tensor, both directions of every edge, no self-loops, no edge
            twice.
        edge_weight: [E] positive weights, the same in both directions; None means ones. The
            balanced form takes their type only.
        num_nodes: N; None: the largest index + 1.
        method: "augmented" (with triangles), "1d" (without) or "balanced".

    Returns:
        [E] the curvature of each column, the same in both directions, in the type of `edge_weight`
        (torch's default type without it), on the device of `edge_index`.

    Source: Forman 2003, "Bochner's method for cell complexes"; Samal et al. 2018, "Comparative
    analysis of two discretizations of Ricci curvature for complex networks", equations 7 and 8;
    Topping et al. 2022, "Understanding over-squashing and bottlenecks on graphs via curvature",
    Definition 1 (balanced).

    Example:
        A triangle 0, 1, 2 with a tail 2 - 3.

        >>> edge_index = torch.tensor([[0, 1, 0, 2, 1, 2, 2, 3], [1, 0, 2, 0, 2, 1, 3, 2]])
        >>> forman_curvature(edge_index)
        tensor([3., 3., 2., 2., 2., 2., 0., 0.])
    """
    check_choice("method", method, METHODS)
    graph = _simple_graph(edge_index, num_nodes)
    dtype = torch.get_default_dtype()
    if edge_weight is not None:
        check_edge_vector("edge_weight", edge_weight, graph.num_edges)
        dtype = edge_weight.dtype
    if method == "balanced":
        curvature = _balanced(graph)
    else:
        curvature = _weighted(graph, edge_weight, with_triangles=method == "augmented")
    curvature = graph.to_edges(curvature).to(dtype)
    _check_range(curvature, edge_weight, method)
    return curvature


def _check_range(curvature: Tensor, edge_weight: Tensor | None, method: str) -> None:
    """Raise if weights are so large, or so far apart, that their curvature is out of range."""
    overflown = int((~curvature.isfinite()).sum())
    if overflown:
        largest = 1.0 if edge_weight is None else float(edge_weight.max())
        raise ValueError(
            f"Expected 'edge_weight' to have a {method!r} curvature within {curvature.dtype}, "
            f"which squares or divides weights (got {overflown} of {curvature.numel()} that are "
            f"not, and a maximum weight of {largest:.3g}). To fix this, divide the weights by "
            "their maximum, or pass them in torch.float64."
        )


def _weighted(graph: GraphStructure, edge_weight: Tensor | None, with_triangles: bool) -> Tensor:
    """Compute F_1d or F_aug in the slots."""
    if edge_weight is None:
        weight = torch.ones(graph.num_slots, dtype=torch.float64)
    else:
        check_weight_range("edge_weight", edge_weight)
        zeros = int((edge_weight == 0).sum())
        if zeros:
            raise ValueError(
                "Expected 'edge_weight' to be positive, because this curvature divides by it (got "
                f"{zeros} zeros of {edge_weight.numel()}). To fix this, drop these edges or raise "
                "their weight."
            )
        weight = graph.read_symmetric("edge_weight", edge_weight)
    return forman(graph.csr, graph.reverse, weight, with_triangles)


def _balanced(graph: GraphStructure) -> Tensor:
    """Compute F_bal in the slots."""
    csr = graph.csr
    triangles = triangle_counts(csr, graph.reverse)
    squares, degeneracy = square_counts(csr)
    squares = squares + squares[graph.reverse]
    degeneracy = torch.maximum(degeneracy, degeneracy[graph.reverse])
    degree = csr.rowptr.diff().double()
    ends = degree[csr.row], degree[csr.col]
    low, high = torch.minimum(*ends), torch.maximum(*ends)
    curvature = 2 / low + 2 / high - 2 + 2 * triangles / high + triangles / low
    curvature += squares / (degeneracy.clamp(min=1) * high)
    return curvature.masked_fill(low == 1, 0.0)


def jaccard_overlap(edge_index: Tensor | GraphStructure, num_nodes: int | None = None) -> Tensor:
    r"""Compute the Jaccard overlap of the neighbours of every edge's two ends.

    .. math::
        J_{ij} = \frac{|N(i) \cap N(j)|}{|N(i) \cup N(j)|}

    A bridge has no common neighbours, J = 0; between twins in a clique of n nodes it is
    (n - 2) / n, since i and j are neighbours of each other, but not of themselves.

    Args:
        edge_index: [2, E] integer tensor, both directions of every edge, no self-loops, no edge
            twice.
        num_nodes: N; the largest index + 1 if it is None.

    Returns:
        [E] numbers in [0, 1), of torch's default type, the same in both directions.

    Source: Jaccard, "The distribution of the flora in the alpine zone", New Phytologist 11, 1912.

    Example:
        A triangle 0, 1, 2 with a tail 2 - 3.

        >>> edge_index = torch.tensor([[0, 1, 0, 2, 1, 2, 2, 3], [1, 0, 2, 0, 2, 1, 3, 2]])
        >>> jaccard_overlap(edge_index)
        tensor([0.3333, 0.3333, 0.2500, 0.2500, 0.2500, 0.2500, 0.0000, 0.0000])
    """
    graph = _simple_graph(edge_index, num_nodes)
    csr, degree = graph.csr, graph.csr.degree
    common = triangle_counts(csr, graph.reverse)
    union = degree[csr.row] + degree[csr.col] - common
    return graph.to_edges(common.double() / union).to(torch.get_default_dtype())


def _simple_graph(
    edge_index: Tensor | GraphStructure, num_nodes: int | None = None
) -> GraphStructure:
    """Sort and check the edges of a simple, undirected graph, unless they are prepared."""
    if not isinstance(edge_index, GraphStructure):
        check_edge_index_shape(edge_index)  # the values of a sparse matrix would be lost
    structure = read_structure(edge_index, num_nodes)
    if structure.has_repeated_edges:
        repeated = structure.num_edges - structure.num_slots
        raise ValueError(
            f"Expected 'edge_index' without repeated edges (got {repeated}). To fix this, call "
            "torch_geometric.utils.coalesce(edge_index, edge_weight)."
        )
    return structure
