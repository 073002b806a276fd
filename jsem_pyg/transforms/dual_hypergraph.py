"""A PyG transform to the dual hypergraph: edges become nodes, and their features can diffuse."""

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.data.hypergraph_data import HyperGraphData
from torch_geometric.transforms import BaseTransform

from .._checks import check_edge_index, check_edge_index_shape, check_tensor
from ..graph.hyperedges import dual_hypergraph, edge_hyperedges
from ..graph.prepare import GraphReader
from ..graph.prepare_hypergraph import prepare_hypergraph
from ._batch import count_nodes
from ._hypergraph import check_single


@functional_transform("dual_hypergraph")
class DualHypergraph(BaseTransform):
    r"""Exchanges nodes and (hyper)edges (`dual_hypergraph`).

    The dual of a graph or hypergraph has a node for each edge, with the features `edge_attr` as its
    `x`, and a hyperedge for each node, with the features `x` as its `edge_attr` (`"Edge
    Representation Learning with Hypergraphs" <https://arxiv.org/abs/2106.15845>`_, section 3.1).
    What diffuses there are features of edges:
    ``HypergraphDiffusion()(dual.x, dual)`` has the order of `data.edge_attr`.

    Each column of a graph's `edge_index` becomes a node of its own: both directions of an edge,
    where there are both, are two nodes in the same hyperedges, which diffuse to the same features
    as one would. Attributes other than `x` and `edge_attr` are dropped.

    Raises:
        TypeError: if `data` is not a homogeneous graph.
        ValueError: if `data` is a mini-batch, has no `edge_index`, or features that do not fit it.

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> data = Data(x=torch.ones(3, 5), edge_index=edge_index, edge_attr=torch.ones(4, 2))
        >>> DualHypergraph()(data)
        HyperGraphData(x=[4, 2], edge_index=[2, 8], edge_attr=[3, 5], num_hyperedges=3)
    """

    def forward(self, data: Data) -> HyperGraphData:
        """Make the dual of a graph or hypergraph."""
        check_single(data)
        if data.edge_index is None:
            raise ValueError("Expected 'data' to have an 'edge_index' (got none).")
        check_edge_index_shape(data.edge_index)
        index, x, edge_attr = data.edge_index, data.get("x"), data.get("edge_attr")
        num_nodes = count_nodes(data)
        if isinstance(data, HyperGraphData):
            num_edges = prepare_hypergraph(GraphReader(0), data, num_nodes).num_hyperedges
        else:
            check_edge_index(index, num_nodes)
            index, num_edges = edge_hyperedges(index), index.size(1)
        _check_rows("x", x, num_nodes)
        _check_rows("edge_attr", edge_attr, num_edges)
        dual = HyperGraphData(
            x=edge_attr,
            edge_index=dual_hypergraph(index),
            edge_attr=x,
            num_hyperedges=num_nodes,
        )
        if dual.x is None:
            dual.num_nodes = num_edges
        elif dual.x.dim() == 1:
            dual.x = dual.x[:, None]
        return dual


def _check_rows(name: str, value: Tensor | None, count: int) -> None:
    """Raise unless features have a row for each of what becomes nodes or hyperedges."""
    if value is None:
        return
    check_tensor(name, value)
    if value.dim() == 0 or value.size(0) != count:
        raise ValueError(
            f"Expected '{name}' to have {count} rows, as many as 'edge_index' says (got shape "
            f"{list(value.shape)})."
        )
