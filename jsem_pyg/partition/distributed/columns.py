"""The other way to share the work: all of the graph in every process, and some of the columns."""

import copy

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from ...graph import GraphStructure
from .ranks import Ranks


class ColumnShare(GraphStructure):
    """A whole graph in a process that has a share of the columns of x, and never waits for others.

    An operator acts on every column by itself, so nothing travels. What looks at all channels of a
    node at once has no place here: losses that compare features, linear maps, and conductances that
    see nodes, which are refused. Each process has the share of the gradients of edge weights,
    parameters and times that came through its columns; :func:`sum_gradients` adds them up.

    Args:
        data: the whole graph. `x` may be a memory-mapped array, of which these columns are read.
        ranks: the processes.

    Attributes:
        data: a `Data` with these columns of x and all else; its `edge_index` is this object.
        columns: which columns these are, a slice.
        ranks: the processes.
    """

    has_all_channels = False

    def __init__(self, data: Data, ranks: Ranks) -> None:
        if data.get("x") is None:
            raise ValueError(
                f"Expected 'data' to have 'x', whose columns are shared (got {data}). To fix this, "
                "set data.x, or take strategy='rows'."
            )
        num_nodes, num_columns = data.x.shape
        super().__init__(data.edge_index, num_nodes)
        self.ranks = ranks
        low, high = (at * num_columns // ranks.size for at in (ranks.rank, ranks.rank + 1))
        self.columns = slice(low, high)
        self.data = copy.copy(data)
        own = data.x[:, self.columns]
        self.data.x = own.clone() if isinstance(own, Tensor) else torch.from_numpy(np.array(own))
        self.data.edge_index = self

    def __repr__(self) -> str:
        return (
            f"ColumnShare(rank={self.ranks.rank} of {self.ranks.size}, num_nodes={self.num_nodes}, "
            f"num_edges={self.num_edges}, columns={self.columns.start} to {self.columns.stop})"
        )
