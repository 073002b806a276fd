"""A PyG transform: the smoothest modes of the graph, as positional encodings."""

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from ..diffusion import low_modes
from ._node_columns import NodeColumns


@functional_transform("add_low_modes")
class AddLowModes(NodeColumns):
    """Adds positional encodings: the k smoothest modes of the graph that are not constant.

    Modes of the Laplacian I - D^(-1/2) W D^(-1/2) (:func:`jsem_pyg.diffusion.low_modes`); as
    PyG's `AddLaplacianEigenvectorPE`, which leaves out the first one too, but in seconds on a
    million nodes, precise, and with signs that do not change from run to run. A graph with fewer
    modes gets columns of zeros.

    Reads `edge_index` and, if there is one, `edge_weight`. A mini-batch is refused: a data set's
    `transform` takes its graphs one by one.

    Args:
        k: the number of modes.
        attr_name: the attribute that gets them, [N, k]; None appends them to `data.x`.
        seed: of the random signals that modes are found from.

    Source: Dwivedi et al., "Benchmarking graph neural networks", JMLR 24, 2023, section 4.

    Example:
        >>> from torch_geometric.data import Data
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> data = AddLowModes(2, attr_name="pe")(Data(edge_index=path, num_nodes=4))
        >>> data.pe.shape
        torch.Size([4, 2])
    """

    def __init__(
        self, k: int, attr_name: str | None = "laplacian_eigenvector_pe", seed: int = 0
    ) -> None:
        super().__init__("k", k, attr_name, seed)
        self.k = k

    def columns(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> Tensor:
        """Compute the modes [N, k]."""
        count = min(self.k + 1, num_nodes)
        modes = edge_index.new_zeros(num_nodes, self.k, dtype=torch.get_default_dtype())
        if count > 1:
            found = low_modes(edge_index, count, edge_weight, num_nodes=num_nodes, seed=self.seed)
            modes[:, : count - 1] = found[1][:, 1:]
        return modes

    def __repr__(self) -> str:
        return f"AddLowModes({self.k}, attr_name={self.attr_name!r})"
