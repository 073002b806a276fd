"""The graph of a training, read and checked once for everything that follows."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from .._checks import (
    check_choice,
    check_dense,
    check_edge_weight,
    check_finite,
    check_float,
    check_instance,
    check_labels,
    check_tensor,
)
from ..graph import GraphStructure
from ..graph.prepare import count_edges
from .labels import check_mask

EDGE_INPUTS = ("edge_weight", "edge_attr")  # passed to a model by name, if the data has them
_REMEDY = {
    "x": "set data.x to the features [N, D]",
    "edge_index": "build a graph first, for instance with jsem_pyg.transforms.FaissKNNGraph",
}


@dataclass(frozen=True)
class TrainingGraph:
    """Checked features, edges and labels, on the device of the training."""

    x: Tensor  # [N, D], finite
    edge_index: Any  # [2, E], or the DistributedGraph of this process
    edge_weight: Tensor | None = None  # [E], >= 0
    edge_attr: Tensor | None = None  # [E, edge_dim]
    y: Any = None  # [N], not checked before `known_labels`
    train_mask: Any = None  # [N], likewise

    @property
    def edge_inputs(self) -> dict[str, Tensor]:
        """The weights and features of edges that the data has, by name."""
        found = {"edge_weight": self.edge_weight, "edge_attr": self.edge_attr}
        return {name: value for name, value in found.items() if value is not None}

    @cached_property
    def structure(self) -> GraphStructure:
        """The edges, sorted; for heat, which needs all nodes, and both directions of each edge."""
        graph = self.edge_index
        structure: GraphStructure = (
            GraphStructure(graph, self.x.size(0))
            if isinstance(graph, Tensor)
            else graph.whole(
                "for self-training and for the choice of a time, which need all nodes at once",
                "train by triplets, fit(..., loss='triplet'), or train on a graph that fits one "
                "machine, such as a part",
            )
        )
        if self.edge_weight is not None:
            structure.check_weight(self.edge_weight)
        return structure

    def forward(self, model: nn.Module) -> Tensor:
        """The output of a model for all nodes."""
        output: Tensor = model(self.x, self.edge_index, **self.edge_inputs)
        return output

    def check_takes(self, model: nn.Module) -> None:
        """Raise a TypeError unless the `forward` of a model takes what it is called with."""
        if model._forward_pre_hooks:  # they may change the arguments
            return
        try:
            signature = inspect.signature(model.forward)
        except (TypeError, ValueError):  # of a compiled or scripted module
            return
        try:
            bound = signature.bind(self.x, self.edge_index, **self.edge_inputs)
            if bound.arguments.get("batch") is self.edge_index:  # torch_geometric.nn.MLP, norms
                raise TypeError("its second argument is 'batch', not edges")
        except TypeError as error:
            names = ", ".join(f"{name}=data.{name}" for name in self.edge_inputs)
            call = f"model(data.x, data.edge_index{', ' if names else ''}{names})"
            without = " and ".join(f"'{name}'" for name in self.edge_inputs)
            remedy = f", or leave {without} out of 'data'" if names else ""
            raise TypeError(
                f"Expected 'model' to take the call {call} (got {type(model).__name__}, whose "
                f"forward takes {signature}: {error}). To fix this error, add what is missing to "
                f"its forward{remedy}."
            ) from error

    def keep_edges(self, kept: Tensor) -> "TrainingGraph":
        """The same nodes with those edges for which `kept` [E] is true."""
        num_edges = self.whole_edge_index().size(1)
        check_mask("kept", kept, (num_edges,), "edges that the model was called with")
        edges = kept.to(self.x.device).nonzero()[:, 0]
        inputs = {name: value.index_select(0, edges) for name, value in self.edge_inputs.items()}
        return replace(self, edge_index=self.edge_index.index_select(1, edges), **inputs)

    def whole_edge_index(self) -> Tensor:
        """Return `edge_index` [2, E], or raise a TypeError if several processes share the graph."""
        if not isinstance(self.edge_index, Tensor):
            raise TypeError(
                "Expected the graph to be that of a single process, whose edges can be dropped in "
                f"training (got a {type(self.edge_index).__name__}). To fix this error, train on "
                "the whole graph, or drop edges by jsem_pyg.partition.prune_edges and distribute "
                "what is left."
            )
        return self.edge_index

    def check_labels(self) -> None:
        """Raise unless there are labels `y`, and a `train_mask` if any, for each node."""
        if self.y is None:
            raise ValueError(
                "Expected 'data' to have labels 'y' for sampler='labels' (got none). To fix this "
                "error, set data.y, or use sampler='graph', which needs none."
            )
        check_labels("data.y", self.y, self.x.size(0))
        if self.train_mask is not None:
            check_mask("data.train_mask", self.train_mask, tuple(self.y.shape), "nodes")

    def known_labels(self, sampler: object, labels: Tensor | None) -> Tensor | None:
        """The labels [N] of self-training, -1 where unknown: those given, or `y` on the mask."""
        if not isinstance(sampler, str):
            raise ValueError(
                "Expected 'sampler' to be 'graph' or 'labels' for self-training, which draws no "
                f"triplets (got {sampler!r})."
            )
        check_choice("sampler", sampler, ("graph", "labels"))
        if sampler == "graph":
            return labels
        if labels is not None:
            raise ValueError(
                "Expected 'labels' to be left out for sampler='labels', which stands for data.y "
                "(got both). To fix this error, leave one of them out."
            )
        self.check_labels()
        known: Tensor = self.y.clamp(min=-1)
        return known if self.train_mask is None else torch.where(self.train_mask, known, -1)


def prepare_graph(
    data: Data | TrainingGraph, device: torch.device | str | None = None
) -> TrainingGraph:
    """Check a graph and bring it to the device, unless that is done.

    The data are not changed, no gradient flows back to them, and features and weights are finite.
    The device is that of `data.x` if omitted.
    """
    if isinstance(data, TrainingGraph):
        return data
    check_instance("data", data, Data, "a torch_geometric.data.Data")
    for name, remedy in _REMEDY.items():
        if data.get(name) is None:
            raise ValueError(
                f"Expected 'data' to have '{name}' (got {data}). To fix this error, {remedy}."
            )
    check_float("data.x", data.x)
    check_dense("data.x", data.x)
    if data.x.dim() != 2:
        raise ValueError(f"Expected 'data.x' to have shape [N, D] (got {list(data.x.shape)}).")
    check_finite("data.x", data.x)
    graph = data.edge_index
    _check_edge_inputs(data, count_edges(graph, data.x.size(0)))
    place = _read_device(device, data.x)
    found = {name: data.get(name) for name in EDGE_INPUTS}
    return TrainingGraph(
        data.x.detach().to(place),
        graph.to(place) if isinstance(graph, Tensor) else graph,
        y=data.get("y"),
        train_mask=data.get("train_mask"),
        **{name: value.detach().to(place) for name, value in found.items() if value is not None},
    )


def check_times(times: Any, check: Callable[[str, Any], None], name: str = "times") -> None:
    """Raise unless `times` is a list of diffusion times that each pass a check."""
    if isinstance(times, str) or not isinstance(times, Sequence):
        raise TypeError(
            f"Expected '{name}' to be a list of diffusion times (got {type(times).__name__})."
        )
    if len(times) == 0:
        raise ValueError(f"Expected '{name}' to hold at least one diffusion time (got none).")
    for t in times:
        check(name, t)


def _check_edge_inputs(data: Data, num_edges: int) -> None:
    """Raise unless weights and features of edges belong to the edges."""
    if data.get("edge_weight") is not None:
        check_edge_weight(data.edge_weight, num_edges)
    edge_attr = data.get("edge_attr")
    if edge_attr is None:
        return
    check_tensor("data.edge_attr", edge_attr)
    if edge_attr.dim() == 0 or edge_attr.size(0) != num_edges:
        raise ValueError(
            f"Expected 'data.edge_attr' to have {num_edges} rows, one for each column of "
            f"'edge_index' (got shape {list(edge_attr.shape)})."
        )
    if edge_attr.is_floating_point():  # others are for the model to judge
        check_float("data.edge_attr", edge_attr)
        check_finite("data.edge_attr", edge_attr)


def _read_device(device: Any, x: Tensor) -> torch.device:
    """The device of the argument, that of x for None."""
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
