"""What training asks of a graph and of its labels."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from .._checks import (
    check_choice,
    check_dense,
    check_edge_index,
    check_edge_weight,
    check_finite,
    check_float,
    check_instance,
    check_integers,
    check_labels,
    check_tensor,
)
from ..graph.prepare import check_num_nodes
from ..graph.rows import GraphRows


def check_model(model: Any) -> None:
    """Raise a TypeError unless `model` is a module."""
    check_instance("model", model, nn.Module, "a torch.nn.Module")


def check_times(times: Any, check: Callable[[str, Any], None]) -> None:
    """Raise unless `times` is a list of diffusion times that each pass a check."""
    if isinstance(times, str) or not isinstance(times, Sequence):
        raise TypeError(
            f"Expected 'times' to be a list of diffusion times (got {type(times).__name__})."
        )
    if len(times) == 0:
        raise ValueError("Expected 'times' to hold at least one diffusion time (got none).")
    for t in times:
        check("times", t)


def read_device(device: Any, x: Tensor) -> torch.device:
    """The device that is meant: that of x for None.

    Raises:
        TypeError: If it is neither a name nor a `torch.device`.
        ValueError: If there is no such device here.
    """
    if device is None:
        return x.device
    check_instance("device", device, (str, torch.device), "a torch.device or its name")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except Exception as error:  # of another type for each kind of device
        raise ValueError(
            f"Expected 'device' to be a device of this machine, such as 'cpu' (got {device!r}: "
            f"{error})."
        ) from error
    if found.type == "meta":
        raise ValueError(f"Expected 'device' to be one that computes (got {device!r}).")
    return found


def check_data(data: Any) -> None:
    """Raise unless `data` has finite features `x` [N, D] and well-formed edges."""
    check_instance("data", data, Data, "a torch_geometric.data.Data")
    fixes = {
        "x": "set data.x to the features [N, D]",
        "edge_index": "build a graph first, for instance with jsem_pyg.transforms.FaissKNNGraph",
    }
    for name, fix in fixes.items():
        if data.get(name) is None:
            raise ValueError(
                f"Expected 'data' to have '{name}' (got {data}). To fix this error, {fix}."
            )
    check_float("data.x", data.x)
    if data.x.dim() != 2:
        raise ValueError(f"Expected 'data.x' to have shape [N, D] (got {list(data.x.shape)}).")
    check_finite("data.x", data.x)
    if isinstance(data.edge_index, GraphRows):
        check_num_nodes(data.edge_index, data.x.size(0))
    else:
        check_edge_index(data.edge_index, data.x.size(0))


def check_edge_inputs(data: Data) -> None:
    """Raise unless weights and features of edges, if `data` has any, belong to its edges.

    Features may be of any type that the model takes.
    """
    edge_attr, graph = data.get("edge_attr"), data.edge_index
    num_edges = graph.num_edges if isinstance(graph, GraphRows) else graph.size(1)
    if data.get("edge_weight") is not None:
        check_edge_weight(data.edge_weight, num_edges)
    if edge_attr is None:
        return
    check_tensor("data.edge_attr", edge_attr)
    if edge_attr.dim() == 0 or edge_attr.size(0) != num_edges:
        raise ValueError(
            f"Expected 'data.edge_attr' to have {num_edges} rows, one for each column of "
            f"'edge_index' (got shape {list(edge_attr.shape)})."
        )
    if edge_attr.is_floating_point():
        check_float("data.edge_attr", edge_attr)
        check_finite("data.edge_attr", edge_attr)


def check_has_labels(data: Data) -> None:
    """Raise unless `data` has labels `y`, one for each node."""
    if data.get("y") is None:
        raise ValueError(
            f"Expected 'data' to have labels 'y' for sampler='labels' (got {data}). To fix this "
            "error, set data.y, or use sampler='graph', which needs none."
        )
    check_labels("data.y", data.y, data.x.size(0))
    if data.get("train_mask") is not None:
        check_mask("data.train_mask", data.train_mask, data.y)


def check_classes_are_named(name: str, labels: Tensor, num_classes: int) -> None:
    """Raise unless labels [N], -1 where unknown, name a node of each class."""
    known = labels[labels >= 0].unique()
    if num_classes == 0:
        raise ValueError(f"Expected '{name}' to name a node of a class (got none that is known).")
    if not torch.equal(known.cpu(), torch.arange(num_classes)):
        raise ValueError(
            f"Expected '{name}' to name a node of each class 0 to {num_classes - 1} (got "
            f"{known.tolist()})."
        )


def check_known(y: Tensor, mask: Tensor | None) -> None:
    """Raise unless `y` holds integer classes [N], and `mask`, if given, says which may be used."""
    check_integers("y", y)
    if y.dim() != 1:
        raise ValueError(f"Expected 'y' to have shape [N] (got {list(y.shape)}).")
    if mask is None:
        return
    check_mask("mask", mask, y)


def check_mask(name: str, mask: Any, y: Tensor) -> None:
    """Raise unless `mask` is a boolean tensor of the shape of y."""
    check_tensor(name, mask, "a boolean tensor")
    check_dense(name, mask)
    if mask.dtype != torch.bool:
        raise TypeError(f"Expected '{name}' to be a boolean tensor (got {mask.dtype}).")
    if mask.shape != y.shape:
        raise ValueError(
            f"Expected '{name}' to have shape {list(y.shape)}, as 'y' has (got {list(mask.shape)})."
        )


def known_labels(data: Data, sampler: object) -> Tensor | None:
    """Read `fit`'s argument `sampler`: the labels that may be used, -1 elsewhere, or None.

    Raises:
        TypeError: If labels or mask have the wrong type.
        ValueError: If it is neither "graph" nor "labels", if there are no labels, or a mask of
            another shape.
    """
    if not isinstance(sampler, str):
        raise ValueError(
            "Expected 'sampler' to be 'graph' or 'labels' for self-training, which draws no "
            f"triplets (got {sampler!r})."
        )
    check_choice("sampler", sampler, ("graph", "labels"))
    if sampler == "graph":
        return None
    check_has_labels(data)
    mask = data.get("train_mask")
    check_known(data.y, mask)
    return data.y if mask is None else torch.where(mask, data.y, -1)
