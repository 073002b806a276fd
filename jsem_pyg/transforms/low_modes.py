"""A PyG transform that adds positional encodings: the smoothest modes of a graph."""

import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from .._checks import check_nonnegative_int, check_positive_int, check_text
from ..diffusion import low_modes
from ._batch import check_single


@functional_transform("add_low_modes")
class AddLowModes(BaseTransform):
    """Adds positional encodings: the k smoothest modes of the graph that are not constant.

    Modes of the Laplacian I - D^(-1/2) W D^(-1/2) (:func:`jsem_pyg.diffusion.low_modes`); as
    PyG's `AddLaplacianEigenvectorPE`, which leaves out the first one too, but in about a minute
    on a million nodes, precise, and with signs that do not change from run to run. A graph with
    fewer modes gets columns of zeros.

    Reads `edge_index` and, if there is one, `edge_weight`. A mini-batch is refused: a data set's
    `transform` takes its graphs one by one.

    Args:
        k: the number of modes.
        attr_name: the attribute that gets them, [N, k]; None appends them to `data.x`.
        seed: of the random signals that modes are found from.

    Source: Dwivedi et al., "Benchmarking graph neural networks", JMLR 24, 2023, section 4.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> data = AddLowModes(2, attr_name="pe")(Data(edge_index=path, num_nodes=4))
        >>> data.pe.shape
        torch.Size([4, 2])
    """

    def __init__(
        self, k: int, attr_name: str | None = "laplacian_eigenvector_pe", seed: int = 0
    ) -> None:
        check_positive_int("k", k)
        check_nonnegative_int("seed", seed)
        if attr_name is not None:
            check_text("attr_name", attr_name)
        self.k, self.attr_name, self.seed = k, attr_name, seed

    def forward(self, data: Data) -> Data:
        """Add the modes to `data`; `__call__` has copied it."""
        check_single(data)
        edge_index, weight, size = data.edge_index, data.get("edge_weight"), data.num_nodes or 0
        modes = edge_index.new_zeros(size, self.k, dtype=torch.get_default_dtype())
        count = min(self.k + 1, size)
        if count > 1:
            found = low_modes(edge_index, count, weight, num_nodes=size, seed=self.seed)
            modes[:, : count - 1] = found[1][:, 1:]
        if self.attr_name is not None:
            data[self.attr_name] = modes
        elif data.get("x") is None:
            data.x = modes
        else:
            x = data.x.view(-1, 1) if data.x.dim() == 1 else data.x
            data.x = torch.cat([x, modes.to(x.dtype)], dim=-1)
        return data

    def __repr__(self) -> str:
        return f"AddLowModes({self.k}, attr_name={self.attr_name!r})"
