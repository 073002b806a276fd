"""The overlap of the neighbours of both ends of an edge."""

import torch
from torch import Tensor

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
    graph = simple_graph(edge_index, num_nodes)
    csr, degree = graph.csr, graph.csr.degree
    common = triangle_counts(csr, graph.reverse)
    union = degree[csr.row] + degree[csr.col] - common
    return graph.to_edges(common.double() / union).to(torch.get_default_dtype())
