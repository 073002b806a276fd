"""Appends edge attributes: the base of transforms, with scaling, fitting, types and batches."""

from collections.abc import Iterable
from typing import Self

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import BaseData
from torch_geometric.transforms import BaseTransform

from .._checks import FLOATS, check_bool, check_dense, check_tensor
from ..curvature import robust_standardize
from ..curvature.standardize import robust_scale
from ._batch import check_edges, edge_graph, record_edges


class EdgeColumns(BaseTransform):
    """Appends columns to `data.edge_attr`; a subclass computes them in `columns`.

    Args:
        norm: whether each column is standardised.
        cat: whether to keep existing edge attributes.
    """

    scale: tuple[Tensor, Tensor] | None = None  # median and spread [F] that were fitted

    def __init__(self, norm: bool, cat: bool) -> None:
        check_bool("norm", norm)
        check_bool("cat", cat)
        self.norm = norm
        self.cat = cat

    def columns(self, data: Data) -> Tensor:
        """Compute the columns [E, F], not scaled yet."""
        raise NotImplementedError

    def fit(self, data: Data | Iterable[Data]) -> Self:
        """Find the scale of these edges, and keep it for all later graphs.

        Args:
            data: a graph, a mini-batch or any iterable of graphs (a dataset), whose edges are taken
                together.
        """
        if not self.norm:
            raise ValueError(
                "Expected 'norm' to be True, as there is nothing to remember without a scale (got "
                "False)."
            )
        graphs = data if isinstance(data, Iterable) and not isinstance(data, BaseData) else [data]
        columns = [self._columns(graph) for graph in graphs]
        if not sum(each.size(0) for each in columns):
            raise ValueError(
                f"Expected 'data' to have edges to be fitted on (got {len(columns)} graph(s) and "
                "none)."
            )
        self.scale = robust_scale(torch.cat(columns))
        return self

    def forward(self, data: Data) -> Data:
        """Add the new columns to `data`; `__call__` has copied it."""
        columns = self._scaled(self._columns(data), data)
        data.edge_attr = self._append(columns, data.get("edge_attr"), data.get("x"))
        record_edges(data, "edge_attr")
        return data

    def _columns(self, data: Data) -> Tensor:
        check_edges(data)
        return self.columns(data)

    def _scaled(self, columns: Tensor, data: Data) -> Tensor:
        if not self.norm:
            return columns
        if self.scale is not None:
            median, spread = (each.to(columns.device) for each in self.scale)
            return ((columns.double() - median) / spread).to(columns.dtype)
        graph = edge_graph(data)
        scaled = [robust_standardize(column, graph) for column in columns.unbind(1)]
        return torch.stack(scaled, dim=1)

    def _append(self, columns: Tensor, edge_attr: Tensor | None, x: Tensor | None) -> Tensor:
        for pattern in (edge_attr, x):
            if isinstance(pattern, Tensor) and pattern.dtype in FLOATS:
                columns = columns.to(pattern.dtype)
                break
        if edge_attr is None or not self.cat:
            return columns
        _check_kept(edge_attr, columns.size(0))
        kept = edge_attr[:, None] if edge_attr.dim() == 1 else edge_attr
        return torch.cat([kept, columns], dim=1)

    def _repr(self, options: str) -> str:
        fitted = "" if self.scale is None else ", fitted=True"
        norms = f"norm={self.norm!r}, cat={self.cat}"
        return f"{self.__class__.__name__}({options}, {norms}{fitted})"


def _check_kept(edge_attr: Tensor, num_edges: int) -> None:
    """Raise unless existing edge attributes can be joined with new ones."""
    check_tensor("edge_attr", edge_attr)
    check_dense("edge_attr", edge_attr)
    if edge_attr.dim() not in (1, 2) or edge_attr.size(0) != num_edges:
        raise ValueError(
            f"Expected 'edge_attr' to have shape [{num_edges}, F], a row for each column of "
            f"'edge_index' (got {list(edge_attr.shape)}). To fix this, mend it, or pass cat=False, "
            "which replaces it."
        )
