"""Cuts the rows of one process out of a whole graph."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...graph import GraphStructure
from ..split import Partition


class RowRecord(NamedTuple):
    """The rows of one process. The *place* of a node is its index in the order of the partition.

    Processes hold consecutive places, so that the process of a node follows from its place.
    """

    begin: Tensor  # [P + 1] int64, the place where the rows of each process begin, and N
    rank: int  # whose rows these are
    nodes: Tensor  # [n] int64, the nodes, as the whole graph counts them
    edges: Tensor  # [E] int64, the edges, as the whole graph counts them, ascending
    row: Tensor  # [E] int64, the row of each edge, from zero: its target
    col: Tensor  # [E] int64, the place of its column, the source

    def to(self, device: torch.device | str) -> "RowRecord":
        """Return the same on another device."""
        tensors: dict[str, Any] = {
            name: v for name, v in self._asdict().items() if isinstance(v, Tensor)
        }
        return self._replace(**{name: value.to(device) for name, value in tensors.items()})

    @property
    def num_nodes_in_all(self) -> int:
        """Return the number N of nodes of the whole graph."""
        return int(self.begin[-1])


def cut_rows(
    structure: GraphStructure, partition: Partition, rank: int, num_ranks: int
) -> RowRecord:
    """Cut the rows of one process out of a whole graph.

    Blocks that follow each other go to one process where there are several times as many.
    """
    if partition.num_nodes != structure.num_nodes:
        raise ValueError(
            f"Expected 'partition' to be of the graph's {structure.num_nodes} nodes "
            f"(got one of {partition.num_nodes})."
        )
    if partition.num_parts % num_ranks:
        raise ValueError(
            f"Expected 'partition' to have {num_ranks} parts, one for every process, or a multiple "
            f"of that (got {partition.num_parts}). To fix this, call recursive_partition(edge_index"
            f", {num_ranks}), or start as many processes as there are parts."
        )
    begin = partition.ptr[:: partition.num_parts // num_ranks].clone()
    low, high = begin[rank : rank + 2].tolist()
    row, col = (partition.place.index_select(0, each.cpu()) for each in structure.edges)
    edges = ((row >= low) & (row < high)).nonzero()[:, 0]
    nodes = partition.order[low:high].clone()
    return RowRecord(begin, rank, nodes, edges, row[edges] - low, col[edges])
