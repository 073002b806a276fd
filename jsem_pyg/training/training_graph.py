"""The graph of a training, read and checked once for everything that follows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from .._checks import (
    check_edge_index,
    check_edge_type,
    check_edge_weight,
    check_finite,
    check_labels,
    check_matrix,
    check_num_nodes,
    check_tensor,
)
from .._precision import unit_rows
from ..diffusion import heat_diffusion
from ..graph import GraphStructure
from ..graph.reader import check_data
from ..graph.structure import GraphRows


@dataclass(frozen=True)
class TrainingGraph:
    """Checked features, edges and labels, on the device of the training."""

    x: Tensor  # [N, D], finite
    edge_index: Any  # [2, E], or the DistributedGraph of this process
    edge_weight: Tensor | None = None  # [E], >= 0
    edge_attr: Tensor | None = None  # [E, edge_dim]
    edge_type: Tensor | None = None  # [E], integers; for models that take it
    y: Any = None  # labels [N] or signals [N, S], not checked before they are used
    train_mask: Any = None  # [N], likewise
    val_mask: Any = None  # [N], likewise

    @property
    def edge_inputs(self) -> dict[str, Tensor]:
        """Collect weights, features and relations of edges that the data have, by name."""
        found = {
            "edge_weight": self.edge_weight,
            "edge_attr": self.edge_attr,
            "edge_type": self.edge_type,
        }
        return {name: value for name, value in found.items() if value is not None}

    @property
    def weight(self) -> Tensor:
        """The weights [E] in float64, ones if the data have none."""
        if self.edge_weight is None:
            return self.x.new_ones(self.edge_index.size(1), dtype=torch.float64)
        return self.edge_weight.double()

    @cached_property
    def structure(self) -> GraphStructure:
        """Sort the edges; for heat, which needs all nodes, and both directions of each edge."""
        graph = self.edge_index
        if isinstance(graph, GraphRows):
            structure: GraphStructure = graph.whole(
                "for self-training and for the choice of a time, which need all nodes at once",
                "train by triplets, fit(..., loss='triplet')",
            )
        else:
            structure = GraphStructure(graph, self.x.size(0))
        if self.edge_weight is not None:
            structure.check_weight(self.edge_weight)
        return structure

    @torch.no_grad()
    def diffused_rows(self, z: Tensor, times: Sequence[float]) -> Iterator[tuple[float, Tensor]]:
        """Yield each time, the shortest first, with diffused rows of z [N, D] of length one.

        Heat for s + t is heat for s, then for t.
        """
        before = 0.0
        for t in sorted(times):
            z = heat_diffusion(z, self.structure, self.edge_weight, t - before)
            before = t
            yield t, unit_rows(z)


def prepare_graph(data: Data, device: torch.device | str | None = None) -> TrainingGraph:
    """Check a graph and bring it to the device, which is that of `data.x` if omitted.

    The data are not changed, and no gradient flows back to them.
    """
    check_data(data, "x", "edge_index")
    x, graph = data.x, data.edge_index
    check_matrix("data.x", x)
    try:
        place = x.device if device is None else torch.device(device)
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"Expected 'device' to be one of torch's (got {device!r}).") from error
    if isinstance(graph, GraphRows):
        check_num_nodes(graph.num_nodes, x.size(0))
        num_edges = graph.num_edges
    else:
        check_edge_index(graph, x.size(0))
        graph, num_edges = graph.to(place), graph.size(1)
    checks: dict[str, Callable[[Any, int], None]] = {
        "edge_weight": check_edge_weight,
        "edge_attr": _check_edge_attr,
        "edge_type": check_edge_type,
    }
    edges = {}
    for name, check in checks.items():
        if data.get(name) is not None:
            check(data[name], num_edges)
            edges[name] = data[name].detach().to(place)
    nodes = {name: data.get(name) for name in ("y", "train_mask", "val_mask")}
    return TrainingGraph(x.detach().to(place), graph, **edges, **nodes)


def _check_edge_attr(edge_attr: Any, num_edges: int) -> None:
    check_tensor("data.edge_attr", edge_attr)
    if edge_attr.shape[:1] != (num_edges,):
        raise ValueError(
            f"Expected 'data.edge_attr' to have {num_edges} rows, one for each column of "
            f"'edge_index' (got shape {list(edge_attr.shape)})."
        )
    check_finite("data.edge_attr", edge_attr)


def check_known_classes(
    labels: Tensor, num_nodes: int, num_classes: int | None = None, least: int = 1
) -> int:
    """Count the classes in labels [N], -1 where unknown; raise unless all classes have a node."""
    check_labels("labels", labels, num_nodes)
    lowest = int(labels.min()) if labels.numel() else -1
    if lowest < -1:
        raise ValueError(
            f"Expected 'labels' to hold classes from 0 on, and -1 where unknown (got {lowest})."
        )
    known = labels[labels >= 0].unique()
    if num_classes is None:
        num_classes = int(known.max()) + 1 if known.numel() else 0
    if num_classes == 0:
        raise ValueError("Expected 'labels' to name a node of a class (got none that is known).")
    # By number first: of an id taken for a class there would be no memory for all below it.
    if known.numel() != num_classes or not torch.equal(known.cpu(), torch.arange(num_classes)):
        raise ValueError(
            f"Expected 'labels' to name a node of each class 0 to {num_classes - 1} (got "
            f"{known.tolist()})."
        )
    if num_classes < least:
        raise ValueError("Expected 'labels' to name at least two classes (got 1).")
    return num_classes


def keep_known(q: Tensor, labels: Tensor | None) -> Tensor:
    """Return probabilities [N, C] that are one or zero where a label [N] is known (not -1)."""
    if labels is None:
        return q
    certain = F.one_hot(labels.clamp(min=0), q.size(-1)).to(q)
    return torch.where((labels >= 0)[:, None], certain, q)
