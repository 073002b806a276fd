"""Curvature of nodes: the mean of their edges'."""

import torch
from torch import Tensor

from ..graph import GraphStructure
from .simple_graph import simple_graph


def node_curvature(
    edge_index: Tensor | GraphStructure, curvature: Tensor, num_nodes: int | None = None
) -> Tensor:
    r"""Average a number of edges, such as their curvature, over the edges of every node.

    .. math::
        \bar{F}(i) = \frac{1}{|N(i)|} \sum_{j \in N(i)} F(i, j)

    Args:
        edge_index: [2, E] integer tensor, both directions of every edge, no self-loops, no edge
            twice.
        curvature: [E] finite numbers, the same in both directions, such as
            :func:`~jsem_pyg.curvature.forman_curvature` returns.
        num_nodes: N; the largest index + 1 where it is None.

    Returns:
        [N] the mean over the edges of each node, zero for a node without any, in the type of
        `curvature` and on the device of `edge_index`. No gradient flows back.

    Raises:
        TypeError: if an argument is not a tensor of the right type.
        ValueError: if the graph is directed, out of range, or has self-loops or repeated edges, or
            if the numbers do not fit the edges, are not finite or not symmetric.

    Example:
        A triangle 0, 1, 2 with a tail 2 - 3, and node 4 alone.

        >>> edge_index = torch.tensor([[0, 1, 0, 2, 1, 2, 2, 3], [1, 0, 2, 0, 2, 1, 3, 2]])
        >>> curvature = torch.tensor([3.0, 3.0, 2.0, 2.0, 2.0, 2.0, 0.0, 0.0])
        >>> node_curvature(edge_index, curvature, num_nodes=5)
        tensor([2.5000, 2.5000, 1.3333, 0.0000, 0.0000])
    """
    graph = simple_graph(edge_index, num_nodes)
    values = graph.read_symmetric("curvature", curvature)
    total = torch.segment_reduce(values, "sum", offsets=graph.csr.rowptr)
    return (total / graph.csr.degree.clamp(min=1)).to(curvature.dtype)
