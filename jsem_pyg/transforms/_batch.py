"""What the transforms need to know of mini-batches: which graph, and where each graph's edges are.

A transform of a batch gives what the transforms of its graphs, batched, would give; also to
`batch.to_data_list()`, which reads the bookkeeping that PyG's `Batch` keeps for each attribute.
"""

from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from .._groups import group_starts


def check_data(data: Any) -> None:
    """Raise a TypeError unless `data` is a homogeneous graph."""
    if not isinstance(data, Data):
        raise TypeError(
            "Expected 'data' to be a torch_geometric.data.Data with one kind of nodes and edges "
            f"(got {type(data).__name__})."
        )


def edge_graph(data: Data) -> Tensor | None:
    """The graph [E] of each edge of a mini-batch, None for a single graph."""
    batch = data.get("batch")
    return None if batch is None else batch[data.edge_index[0]]


def record_edges(data: Data, *names: str) -> None:
    """Tell a `Batch`, whose edges have changed, where each graph's part of `names` lies."""
    graph = edge_graph(data)
    if graph is None or not hasattr(data, "_slice_dict"):
        return
    ptr = data.ptr.cpu()
    slices = group_starts(graph.cpu(), ptr.numel() - 1)
    # New dictionaries: the copy of a batch shares the old ones with it.
    data._slice_dict = {**data._slice_dict, **dict.fromkeys(names, slices)}
    increments = {name: ptr[:-1] if name == "edge_index" else None for name in names}
    data._inc_dict = {**data._inc_dict, **increments}
