"""A graph's adjacency matrix as the cost inside it: sparse, since a factor would not be small."""

from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch_geometric.data import Data

from ..._checks import read_nodes
from ...kernels.csr import scipy_indices
from ...kernels.torch_func import compute_dtype
from .graph_input import data_graph, read_edges


class AdjacencyCost:
    r"""Takes the matrix of edge weights as costs, :math:`C_{ik} = w_{ik}`, zero without an edge.

    Two graphs are matched by their edges when this is the cost on both sides: the plan of least
    :math:`\sum |A_{ik} - B_{jl}|^2 T_{ij} T_{kl}` keeps as many edges as it can.

    Args:
        edge_index: [2, E] both directions of every edge, no self-loops, a repeated column adds to
            the weight; or a :class:`~jsem_pyg.graph.GraphStructure`; a sparse tensor, whose values
            are weights; or a PyG `Data` with `edge_index` (or `adj_t`), `edge_weight` and
            `num_nodes`.
        edge_weight: [E] non-negative, the same in both directions; None means ones. No gradient
            flows into it.
        num_nodes: N; None: what the data or structure says, else the largest index + 1.

    Attributes:
        graph: the structure.
        weight: [nnz] the weight of each slot of the structure, float32 or float64.

    Example:
        >>> AdjacencyCost(torch.tensor([[0, 1], [1, 0]])).dense()
        tensor([[0., 1.],
                [1., 0.]])
    """

    def __init__(
        self, edge_index: Any, edge_weight: Tensor | None = None, num_nodes: int | None = None
    ) -> None:
        if isinstance(edge_index, Data):
            if edge_weight is not None or num_nodes is not None:
                raise ValueError(
                    "Expected 'edge_weight' and 'num_nodes' to be None with a Data, which has "
                    "its own (got others as well)."
                )
            data = edge_index
            edge_index, edge_weight, num_nodes = data_graph(data), data.edge_weight, data.num_nodes
            if edge_index is None:
                raise ValueError(f"Expected the Data to have 'edge_index' (got {data!r}).")
        graph = read_edges(edge_index, edge_weight, num_nodes)
        weight = graph.weight
        if weight is None:
            weight = torch.ones(graph.structure.num_edges, device=graph.structure.device)
        weight = weight.detach().to(compute_dtype(weight))
        self.graph = graph.structure
        self.weight = self.graph.symmetric(self.graph.to_slots(weight))

    @property
    def num_points(self) -> int:
        """N."""
        return self.graph.num_nodes

    @property
    def device(self) -> torch.device:
        """The device of the graph."""
        return self.graph.device

    def dense(self) -> Tensor:
        """Compute the matrix [N, N]."""
        dense = self.weight.new_zeros(self.num_points, self.num_points)
        return dense.index_put((self.graph.row.long(), self.graph.col.long()), self.weight)

    def columns(self, nodes: Tensor) -> Tensor:
        """Compute the columns [N, M] of M nodes."""
        nodes = read_nodes("nodes", nodes, self.num_points)
        chosen = self.scipy()[:, nodes.cpu().numpy()].toarray()
        return torch.from_numpy(chosen).to(self.weight)

    def scipy(self) -> csr_array:
        """Copy the matrix [N, N] to the CPU, in float64, without edges of weight zero."""
        shape = (self.num_points, self.num_points)
        values = self.weight.cpu().double().numpy()
        matrix = csr_array((values, *scipy_indices(self.graph.csr)), shape)
        if not np.all(values):
            matrix = matrix.copy()  # the structure keeps its indices
            matrix.eliminate_zeros()
        return matrix

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_points={self.num_points}, "
            f"num_edges={self.graph.num_slots // 2})"
        )
