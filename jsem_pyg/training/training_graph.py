"""A graph that is sorted and checked once, for all that looks at it."""

import copy
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_dense
from ..graph import GraphStructure
from ..graph.rows import GraphRows
from .data_checks import check_data, read_device


class TrainingGraph(NamedTuple):
    """The features and the edges of a `Data`."""

    x: Tensor  # [N, D]
    edge_index: Tensor  # [2, E], in the order of the weights
    edge_weight: Tensor | None  # [E]
    structure: GraphStructure  # the same edges, sorted


def prepare_graph(
    data: Data | TrainingGraph, device: torch.device | str | None = None
) -> TrainingGraph:
    """Sort and check a graph, unless that is done.

    Args:
        data: A graph with finite `x` [N, D], `edge_index` [2, E], both directions, and optionally
            `edge_weight` [E]. It is not changed.
        device: Where to prepare it; where `data.x` lies if omitted.

    Raises:
        TypeError: If features, edges or weights have the wrong type.
        ValueError: If the graph is directed or has self-loops, or if values do not fit.
        NotImplementedError: If these are the rows of one process among others.
    """
    if isinstance(data, TrainingGraph):
        return data
    if isinstance(data, Data) and isinstance(data.get("edge_index"), GraphRows):
        raise NotImplementedError(
            "Expected a whole graph for self-training and for the choice of a time, which look at "
            "all nodes at once (got the rows of one process). To fix this, train by triplets, "
            "fit(..., loss='triplet'), or train on a graph that fits one machine, such as a part."
        )
    check_data(data)
    check_dense("data.x", data.x)
    chosen = read_device(device, data.x)
    moved = data if device is None else copy.copy(data).to(chosen)  # `to` acts in place
    structure = GraphStructure(moved.edge_index, moved.x.size(0))
    weight = moved.get("edge_weight")
    if weight is not None:
        structure.check_weight(weight)
    return TrainingGraph(moved.x, moved.edge_index, weight, structure)
