"""Writes node attributes: the base of transforms that embed the nodes of a single graph."""

from abc import abstractmethod

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from .._checks import check_nonnegative_int, check_positive_int, check_text
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
