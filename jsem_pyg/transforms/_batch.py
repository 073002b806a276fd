"""Checks graphs, and tells PyG's `Batch` where the new edges of each of its graphs are."""

from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_labels
from .._groups import group_starts
from ..graph.reader import check_data


def check_single(data: Any) -> None:
    """Raise unless `data` is a single homogeneous graph with edges."""
    check_data(data, "edge_index")
    if data.get("batch") is not None:
        raise ValueError(
            "Expected 'data' to be a single graph (got a 'batch' vector). To fix this, transform "
            "graphs one by one, before they are joined."
        )


def edge_graph(data: Data) -> Tensor | None:
    """Look up the graph [E] of each edge of a mini-batch; None for a single graph."""
    batch = data.get("batch")
    if batch is None:
        return None
    check_labels("batch", batch, data.num_nodes)
    return batch[data.edge_index[0]]


def record_edges(data: Data, *names: str) -> None:
    """Write into a `Batch` with changed edges where each graph's part of `names` lies."""
    graph = edge_graph(data)
    if graph is None or not hasattr(data, "_slice_dict"):
        return
    ptr = data.ptr.cpu()
    slices = group_starts(graph.cpu(), ptr.numel() - 1)
    # New dictionaries: the copy of a batch shares the old ones with it.
    data._slice_dict = {**data._slice_dict, **dict.fromkeys(names, slices)}
    increments = {name: ptr[:-1] if name == "edge_index" else None for name in names}
    data._inc_dict = {**data._inc_dict, **increments}
