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
    def num_ranks(self) -> int:
        """Count the processes: P."""
        return self.begin.numel() - 1

    @property
    def num_nodes_in_all(self) -> int:
        """Return the number N of nodes of the whole graph."""
        return int(self.begin[-1])


class Cutter:
    """Cuts a whole graph into the rows of each process.

    Blocks that follow each other go to one process where there are several times as many.

    Raises:
        ValueError: if the blocks cannot be shared evenly, or the nodes are of another number.
    """

    def __init__(
        self, structure: GraphStructure, partition: Partition, num_ranks: int | None = None
    ) -> None:
        num_ranks = partition.num_parts if num_ranks is None else num_ranks
        self.begin = _beginnings(partition, structure.num_nodes, num_ranks)
        self.order = partition.order
        row, col = (each.cpu() for each in structure.edges)
        place = partition.place
        self._row, self._col = place.index_select(0, row), place.index_select(0, col)

    def cut(self, rank: int) -> RowRecord:
        """Cut out the rows of one process."""
        low, high = int(self.begin[rank]), int(self.begin[rank + 1])
        edges = ((self._row >= low) & (self._row < high)).nonzero()[:, 0]
        return RowRecord(
            self.begin,
            rank,
            self.order[low:high].clone(),
            edges,
            self._row.index_select(0, edges) - low,
            self._col.index_select(0, edges),
        )


def _beginnings(partition: Partition, num_nodes: int, num_ranks: int) -> Tensor:
    """Find the place where the rows of each process begin."""
    if partition.num_nodes != num_nodes:
        raise ValueError(
            f"Expected 'partition' to be of the graph's {num_nodes} nodes "
            f"(got one of {partition.num_nodes})."
        )
    if partition.num_parts % num_ranks:
        raise ValueError(
            f"Expected 'partition' to have {num_ranks} parts, one for every process, or a multiple "
            f"of that (got {partition.num_parts}). To fix this, call recursive_partition(edge_index"
            f", {num_ranks}), or start as many processes as there are parts."
        )
    return partition.ptr[:: partition.num_parts // num_ranks].clone()
