"""Features of the edges of a neighbour graph: overlap, contrast, rank."""

import torch
from torch import Tensor

from .._checks import check_edge_weight
from .._groups import group_ranks
from ..graph import GraphStructure
from ..kernels.triangles import triangle_counts
from .simple_graph import simple_graph


def jaccard_overlap(edge_index: Tensor | GraphStructure, num_nodes: int | None = None) -> Tensor:
    r"""Compute the Jaccard overlap of the neighbours of every edge's two ends.

    .. math::
        J_{ij} = \frac{|N(i) \cap N(j)|}{|N(i) \cup N(j)|}

    A bridge has no common neighbours, J = 0; between twins in a clique of n nodes it is
    (n - 2) / n, since i and j are neighbours of each other, but not of themselves.

    Args:
        edge_index: [2, E] integer tensor, both directions of every edge, no self-loops, no edge
            twice.
        num_nodes: N; the largest index + 1 where it is None.

    Returns:
        [E] numbers in [0, 1), of torch's default type, the same in both directions.

    Raises:
        TypeError: if `edge_index` is not a tensor.
        ValueError: if the graph is directed, out of range, or has self-loops or repeated edges.

    Source: Jaccard, "The distribution of the flora in the alpine zone", New Phytologist 11, 1912.

    Example:
        A triangle 0, 1, 2 with a tail 2 - 3.

        >>> edge_index = torch.tensor([[0, 1, 0, 2, 1, 2, 2, 3], [1, 0, 2, 0, 2, 1, 3, 2]])
        >>> jaccard_overlap(edge_index)
        tensor([0.3333, 0.3333, 0.2500, 0.2500, 0.2500, 0.2500, 0.0000, 0.0000])
    """
    graph = simple_graph(edge_index, num_nodes)
    csr, degree = graph.csr, graph.csr.degree
    common = triangle_counts(csr, graph.reverse)
    union = degree[csr.row] + degree[csr.col] - common
    return graph.to_edges(common.double() / union).to(torch.get_default_dtype())


def degree_contrast(
    edge_index: Tensor | GraphStructure,
    edge_weight: Tensor | None = None,
    num_nodes: int | None = None,
) -> Tensor:
    r"""Compute the difference of the degrees of every edge's ends, relative to their sum.

    .. math::
        c_{ij} = \frac{|d_i - d_j|}{d_i + d_j}, \qquad d_i = \sum_v w_{iv}

    It is close to one where a hub meets a node of few edges. Between two nodes of degree zero,
    whose edges have no weight, there is no contrast: c = 0.

    Args:
        edge_index: [2, E] integer tensor, both directions of every edge, no self-loops, no edge
            twice.
        edge_weight: [E] non-negative weights, the same in both directions; None means ones.
        num_nodes: N; the largest index + 1 where it is None.

    Returns:
        [E] numbers in [0, 1], the same in both directions, in the type of `edge_weight` (torch's
        default type without it).

    Raises:
        TypeError: if an argument is not a tensor of the right type.
        ValueError: if the graph is directed, out of range, or has self-loops or repeated edges, or
            if weights are negative, not finite or not symmetric.

    Source: Michelson, "Studies in Optics", 1927, where this ratio is the visibility of fringes.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 0, 2, 1, 2, 2, 3], [1, 0, 2, 0, 2, 1, 3, 2]])
        >>> degree_contrast(edge_index)
        tensor([0.0000, 0.0000, 0.2000, 0.2000, 0.2000, 0.2000, 0.5000, 0.5000])
    """
    graph = simple_graph(edge_index, num_nodes)
    csr, dtype = graph.csr, torch.get_default_dtype()
    degree = csr.degree.double()
    if edge_weight is not None:
        check_edge_weight(edge_weight, graph.num_edges)
        weight, dtype = graph.read_symmetric("edge_weight", edge_weight), edge_weight.dtype
        degree = torch.segment_reduce(weight, "sum", offsets=csr.rowptr)
    i, j = degree[csr.row], degree[csr.col]
    total = i + j
    contrast = (i - j).abs() / torch.where(total > 0, total, 1.0)
    return graph.to_edges(contrast).to(dtype)


def distance_rank(
    edge_index: Tensor | GraphStructure, edge_weight: Tensor, num_nodes: int | None = None
) -> Tensor:
    r"""Compute the rank of every edge's length among the edges of its ends, shortest first.

    .. math::
        r_{ij} = \frac{1}{2} \left( \frac{\rho_i(j) - 1/2}{n_i}
            + \frac{\rho_j(i) - 1/2}{n_j} \right)

    where :math:`\rho_i(j)` is the place of j among the :math:`n_i` neighbours of i, from the
    largest weight, so the shortest distance, to the smallest; equal weights share their mean place.
    It is small where both are among each other's nearest, whatever the scale of the distances.

    Args:
        edge_index: [2, E] integer tensor, both directions of every edge, no self-loops, no edge
            twice.
        edge_weight: [E] non-negative weights, the same in both directions, the larger the nearer.
        num_nodes: N; the largest index + 1 where it is None.

    Returns:
        [E] numbers in (0, 1), the same in both directions, in the type of `edge_weight`.

    Raises:
        TypeError: if an argument is not a tensor of the right type.
        ValueError: if the graph is directed, out of range, or has self-loops or repeated edges, or
            if weights are negative, not finite or not symmetric.

    Example:
        Node 1 is nearer to 2 than to 0, either of which has no other neighbour.

        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> distance_rank(edge_index, torch.tensor([0.2, 0.2, 0.9, 0.9]))
        tensor([0.6250, 0.6250, 0.3750, 0.3750])
    """
    graph = simple_graph(edge_index, num_nodes)
    row, count = graph.csr.row, graph.csr.degree
    check_edge_weight(edge_weight, graph.num_edges)
    weight = graph.read_symmetric("edge_weight", edge_weight)
    rank = (group_ranks(-weight, row, graph.num_nodes) - 0.5) / count[row]
    return graph.to_edges((rank + rank[graph.reverse]) / 2).to(edge_weight.dtype)
