"""What a model is called with in every epoch: features and edges, perhaps fewer of these later."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from .._checks import check_dense, check_tensor
from ..partition import DistributedGraph

EDGE_INPUTS = ("edge_weight", "edge_attr")  # what a model is given where the data has it


@dataclass(frozen=True)
class ModelInput:
    """The arguments of a model, on the device where it is trained."""

    x: Tensor  # [N, D], or its sketch
    edge_index: Tensor | DistributedGraph  # the same every epoch: layers prepare a graph once
    edge_inputs: dict[str, Tensor]  # edge_weight, edge_attr: those that the data has

    def forward(self, model: nn.Module) -> Tensor:
        """Return the model's features of all nodes."""
        return model(self.x, self.edge_index, **self.edge_inputs)

    @property
    def whole_edge_index(self) -> Tensor:
        """[2, E] edges, of which some may go.

        Raises:
            TypeError: If several processes share the graph.
        """
        if isinstance(self.edge_index, DistributedGraph):
            raise TypeError(
                "Expected the graph to be that of a single process, whose edges may go during the "
                "training (got a DistributedGraph). To fix this error, train on the whole graph, "
                "or drop edges by jsem_pyg.partition.prune_edges and distribute what is left."
            )
        return self.edge_index

    def select(self, kept: Tensor) -> "ModelInput":
        """The same nodes with some of the edges.

        Args:
            kept: [E] which columns of `edge_index` stay.

        Raises:
            TypeError: If `kept` is not a boolean tensor, or several processes share the graph.
            ValueError: If it has another shape.
        """
        check_tensor("kept", kept, "a boolean tensor")
        check_dense("kept", kept)
        if kept.dtype != torch.bool:
            raise TypeError(f"Expected 'kept' to be a boolean tensor (got {kept.dtype}).")
        edge_index = self.whole_edge_index
        num_edges = edge_index.size(1)
        if list(kept.shape) != [num_edges]:
            raise ValueError(
                f"Expected 'kept' to have shape [{num_edges}], one entry for each edge that the "
                f"model was called with (got {list(kept.shape)})."
            )
        edges = kept.to(edge_index.device).nonzero()[:, 0]
        inputs = {name: value.index_select(0, edges) for name, value in self.edge_inputs.items()}
        return ModelInput(self.x, edge_index.index_select(1, edges), inputs)


def make_input(data: Data, x: Tensor, device: torch.device) -> ModelInput:
    """Put features and the edges of `data` on a device."""
    inputs = {name: data[name].to(device) for name in EDGE_INPUTS if name in data}
    graph = data.edge_index
    return ModelInput(
        x.to(device), graph.to(device) if isinstance(graph, Tensor) else graph, inputs
    )
