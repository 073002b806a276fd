"""What a model is called with in every epoch: features and edges, perhaps fewer of these later."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from .._checks import check_dense, check_tensor

EDGE_INPUTS = ("edge_weight", "edge_attr")  # what a model is given where the data has it


@dataclass(frozen=True)
class ModelInput:
    """The arguments of a model, on the device where it is trained."""

    x: Tensor  # [N, D], or its sketch
    edge_index: Tensor  # [2, E], the same object every epoch: layers prepare a graph once
    edge_inputs: dict[str, Tensor]  # edge_weight, edge_attr: those that the data has

    def forward(self, model: nn.Module) -> Tensor:
        """Return the model's features of all nodes."""
        return model(self.x, self.edge_index, **self.edge_inputs)

    def select(self, kept: Tensor) -> "ModelInput":
        """The same nodes with some of the edges.

        Args:
            kept: [E] which columns of `edge_index` stay.

        Raises:
            TypeError: If `kept` is not a boolean tensor.
            ValueError: If it has another shape.
        """
        check_tensor("kept", kept, "a boolean tensor")
        check_dense("kept", kept)
        if kept.dtype != torch.bool:
            raise TypeError(f"Expected 'kept' to be a boolean tensor (got {kept.dtype}).")
        num_edges = self.edge_index.size(1)
        if list(kept.shape) != [num_edges]:
            raise ValueError(
                f"Expected 'kept' to have shape [{num_edges}], one entry for each edge that the "
                f"model was called with (got {list(kept.shape)})."
            )
        edges = kept.to(self.edge_index.device).nonzero()[:, 0]
        inputs = {name: value.index_select(0, edges) for name, value in self.edge_inputs.items()}
        return ModelInput(self.x, self.edge_index.index_select(1, edges), inputs)


def make_input(data: Data, x: Tensor, device: torch.device) -> ModelInput:
    """Put features and the edges of `data` on a device."""
    inputs = {name: data[name].to(device) for name in EDGE_INPUTS if name in data}
    return ModelInput(x.to(device), data.edge_index.to(device), inputs)
