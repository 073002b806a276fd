"""Reads the edges and weights of a `Data`, for functions that take a whole graph."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_instance
from .read_structure import read_structure
from .structure import GraphStructure

_REMEDY = {
    "x": "set data.x to the features [N, D]",
    "edge_index": "build a graph first, for instance with jsem_pyg.transforms.FaissKNNGraph",
    "edge_attr": "set data.edge_attr to features of the edges [E, F], for instance by "
    "jsem_pyg.transforms.EdgeGeometry",
}


def check_data(data: Any, *names: str) -> None:
    """Raise a TypeError or ValueError unless `data` is a `Data` that has these attributes."""
    check_instance("data", data, Data, "a torch_geometric.data.Data")
    for name in names:
        if data.get(name) is None:
            raise ValueError(
                f"Expected 'data' to have '{name}' (got {data}). To fix this error, "
                f"{_REMEDY[name]}."
            )


def read_data(data: Data, num_nodes: int | None = None) -> tuple[GraphStructure, Tensor]:
    """Check and prepare the edges of a graph; return them and their weights [E].

    Weights are ones if `data` has none. No gradient flows back to them.
    """
    check_data(data, "edge_index")
    size = data.num_nodes if num_nodes is None else num_nodes
    structure = read_structure(data.edge_index, size)
    weight = data.get("edge_weight")
    if weight is None:
        return structure, torch.ones(structure.num_edges, device=structure.device)
    structure.check_weight(weight)
    return structure, weight.detach()
