"""Checks graphs, and tells PyG's `Batch` where the new edges of each of its graphs are."""

from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_instance, check_labels
from .._groups import group_starts


def check_data(data: Any, name: str = "data") -> None:
    """Raise a TypeError unless `data`, the argument `name`, is a homogeneous graph."""
    kind = "a torch_geometric.data.Data with one kind of nodes and edges"
    check_instance(name, data, Data, kind)


def check_edges(data: Any, name: str = "data") -> None:
    """Raise unless `data` is a homogeneous graph with an `edge_index`."""
    check_data(data, name)
    if data.edge_index is None:
        raise ValueError(f"Expected '{name}' to have an 'edge_index' (got none).")


def check_single(data: Any, name: str, fix: str) -> None:
    """Raise unless `data` is a single homogeneous graph with edges."""
    check_edges(data, name)
    if data.get("batch") is not None:
        raise ValueError(
            f"Expected '{name}' to be a single graph (got a 'batch' vector). To fix this, {fix}."
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
