"""PyG transforms that embed the nodes of a single graph: its smoothest modes, or heat of signs."""

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from .._checks import check_nonnegative_int, check_positive_int, check_text
from ..diffusion import low_modes, sketch_nodes
from ._batch import check_single


class NodeColumns(BaseTransform):
    """Writes columns of the nodes; a subclass computes `count` of them, its argument `name`."""

    def __init__(self, name: str, count: int, attr_name: str | None, seed: int) -> None:
        check_positive_int(name, count)
        check_nonnegative_int("seed", seed)
        if attr_name is not None:
            check_text("attr_name", attr_name)
        self.attr_name, self.seed = attr_name, seed

    @abstractmethod
    def columns(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> Tensor:
        """Compute the columns [N, K]."""

    def forward(self, data: Data) -> Data:
        """Add the columns to `data`; `__call__` has copied it."""
        check_single(data, "data", "transform its graphs one by one")
        found = self.columns(data.edge_index, data.get("edge_weight"), data.num_nodes or 0)
        if self.attr_name is not None:
            data[self.attr_name] = found
        elif data.get("x") is None:
            data.x = found
        else:
            x = data.x.view(-1, 1) if data.x.dim() == 1 else data.x
            data.x = torch.cat([x, found.to(x.dtype)], dim=-1)
        return data


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


@functional_transform("add_sketch")
class AddSketch(NodeColumns):
    """Adds an embedding of the nodes that is made of edges alone.

    Random signs that heat spreads (:func:`jsem_pyg.diffusion.sketch_nodes`), from `edge_index` and,
    if there is one, `edge_weight`. Sketches of different graphs cannot be compared, so a mini-batch
    is refused.

    Args:
        dim: the number of columns, a multiple of the number of times.
        t: the diffusion time >= 0, or several.
        attr_name: the attribute that gets them, [N, dim]; None appends them to `data.x`.
        seed: of the random signs.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> data = AddSketch(8)(Data(edge_index=path, num_nodes=4))
        >>> data.sketch.shape
        torch.Size([4, 8])
    """

    def __init__(
        self,
        dim: int,
        t: float | Sequence[float] = (10.0, 100.0),
        attr_name: str | None = "sketch",
        seed: int = 0,
    ) -> None:
        super().__init__("dim", dim, attr_name, seed)
        self.dim, self.t = dim, t

    def columns(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> Tensor:
        """Compute the sketch [N, dim]."""
        options = {"num_nodes": num_nodes, "seed": self.seed}
        return sketch_nodes(edge_index, self.dim, edge_weight, self.t, **options)

    def __repr__(self) -> str:
        return f"AddSketch({self.dim}, t={self.t!r}, attr_name={self.attr_name!r})"
