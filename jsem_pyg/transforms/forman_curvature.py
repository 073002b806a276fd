"""PyG's door to stage 2: curvature as an edge feature."""

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from .._checks import check_choice
from ..curvature import forman_curvature, robust_standardize
from ..curvature.forman_ricci import METHODS
from ._batch import check_data, edge_graph, record_edges


@functional_transform("forman_curvature")
class FormanCurvature(BaseTransform):
    """Appends the Forman-Ricci curvature of each edge to `data.edge_attr` (`forman_curvature`).

    Reads `edge_index` and, where there is one, `edge_weight`. The column has the type of an
    existing `edge_attr`, else of `x`, if these are floating-point. An `edge_attr` of shape [E]
    counts as [E, 1].

    Args:
        method: "augmented", "1d" or "balanced", see :func:`jsem_pyg.curvature.forman_curvature`.
        norm: whether to standardise by median and median absolute deviation, in a mini-batch each
            graph by itself; see :func:`jsem_pyg.curvature.robust_standardize`.
        cat: whether to keep existing edge attributes; False replaces them.

    Raises:
        TypeError: if `data` is not a homogeneous graph.
        ValueError: if `method` is none of the above, if there is no `edge_index`, or if
            :func:`jsem_pyg.curvature.forman_curvature` refuses the graph.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 0, 2, 1, 2, 2, 3], [1, 0, 2, 0, 2, 1, 3, 2]])
        >>> data = FormanCurvature(norm=False)(Data(edge_index=edge_index, num_nodes=4))
        >>> data.edge_attr.flatten()
        tensor([3., 3., 2., 2., 2., 2., 0., 0.])
    """

    def __init__(self, method: str = "augmented", norm: bool = True, cat: bool = True) -> None:
        check_choice("method", method, METHODS)
        self.method = method
        self.norm = norm
        self.cat = cat

    def forward(self, data: Data) -> Data:
        """Give `data`, which `__call__` has copied, its new column."""
        check_data(data)
        if data.edge_index is None:
            raise ValueError("Expected 'data' to have an 'edge_index' (got none).")
        curvature = forman_curvature(
            data.edge_index, data.get("edge_weight"), data.num_nodes, self.method
        )
        if self.norm:
            curvature = robust_standardize(curvature, edge_graph(data))
        data.edge_attr = self._append(curvature[:, None], data.get("edge_attr"), data.get("x"))
        record_edges(data, "edge_attr")
        return data

    def _append(self, column: Tensor, edge_attr: Tensor | None, x: Tensor | None) -> Tensor:
        for pattern in (edge_attr, x):
            if pattern is not None and pattern.is_floating_point():
                column = column.to(pattern.dtype)
                break
        if edge_attr is None or not self.cat:
            return column
        return torch.cat([edge_attr[:, None] if edge_attr.dim() == 1 else edge_attr, column], dim=1)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}(method={self.method!r}, norm={self.norm}, cat={self.cat})"
        )
