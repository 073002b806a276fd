"""Mini-batches in transforms: the graph of each edge, and where each graph's edges are.

A transform of a batch gives what the transforms of its graphs, batched, would give; also to
`batch.to_data_list()`, which reads the bookkeeping that PyG's `Batch` keeps for each attribute.
"""

from typing import Any

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.hypergraph_data import HyperGraphData
from torch_geometric.typing import SparseTensor

from .._checks import check_instance, check_labels
from .._groups import group_starts


def check_data(data: Any, name: str = "data") -> None:
    """Raise a TypeError unless `data`, the argument `name`, is a homogeneous graph."""
    kind = "a torch_geometric.data.Data with one kind of nodes and edges"
    check_instance(name, data, Data, kind)


def count_nodes(data: Data) -> int:
    """N as PyG counts it, by features first; a ValueError for features that have no rows."""
    for name in ("x", "pos"):
        value = data.get(name)
        if value is not None:
            check_instance(name, value, (Tensor, SparseTensor), "a torch.Tensor")
            if value.dim() == 0:
                raise ValueError(f"Expected '{name}' to have a row for each node (got shape []).")
    if isinstance(data, HyperGraphData):
        return _count_in_hypergraph(data)
    return data.num_nodes or 0  # None for data without anything


def _count_in_hypergraph(data: HyperGraphData) -> int:
    """N of a hypergraph, whose `num_nodes` is that of its members wherever N hyperedges are there.

    PyG infers it from the members alone then, in a tensor, and misses nodes in no hyperedge.
    """
    if any(name in data for name in ("num_nodes", "x", "pos", "batch")):
        return int(Data.num_nodes.fget(data))
    return int(data.edge_index[0].max()) + 1 if data.edge_index.numel() else 0


def edge_graph(data: Data) -> Tensor | None:
    """The graph [E] of each edge of a mini-batch, None for a single graph."""
    batch = data.get("batch")
    if batch is None:
        return None
    check_labels("batch", batch, count_nodes(data))
    return batch[data.edge_index[0]]


def record_edges(data: Data, *names: str) -> None:
    """Record in a `Batch`, whose edges have changed, where each graph's part of `names` lies."""
    graph = edge_graph(data)
    if graph is None or not hasattr(data, "_slice_dict"):
        return
    ptr = data.ptr.cpu()
    slices = group_starts(graph.cpu(), ptr.numel() - 1)
    # New dictionaries: the copy of a batch shares the old ones with it.
    data._slice_dict = {**data._slice_dict, **dict.fromkeys(names, slices)}
    increments = {name: ptr[:-1] if name == "edge_index" else None for name in names}
    data._inc_dict = {**data._inc_dict, **increments}
