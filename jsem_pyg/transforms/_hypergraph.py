"""Shared code of the transforms to hypergraphs: from `Data` to `HyperGraphData`."""

from typing import Any

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.hypergraph_data import HyperGraphData

from ._batch import check_data, count_nodes


def check_single(data: Any) -> None:
    """Raise a TypeError or ValueError unless `data` is a single homogeneous graph."""
    check_data(data)
    if data.get("batch") is not None:
        raise ValueError(
            "Expected 'data' to be a single graph (got a mini-batch). To fix this, transform each "
            "graph: Batch.from_data_list([transform(each) for each in batch.to_data_list()])."
        )


def with_hyperedges(data: Data, hyperedge_index: Tensor, num_hyperedges: int) -> HyperGraphData:
    """The same nodes, with hyperedges in place of edges and of all that belonged to edges."""
    kept = {key: value for key, value in data if "edge" not in key}
    num_nodes = count_nodes(data)  # while the edges, from which N may be counted, are there
    out = HyperGraphData(**kept, edge_index=hyperedge_index, num_hyperedges=num_hyperedges)
    if out.x is None:
        out.num_nodes = num_nodes
    return out
