"""What one process has to know of a graph, cut out of the whole."""

from typing import NamedTuple

import torch
from torch import Tensor

from ...graph import GraphStructure
from ..blocks import Partition


class RowRecord(NamedTuple):
    """The rows of one process. A node's *place* is where it stands in the order of the partition.

    Processes hold consecutive places, so that a place says who holds it.
    """

    begin: Tensor  # [P + 1] int64, the place where the rows of each process begin, and N
    rank: int  # whose rows these are
    nodes: Tensor  # [n] int64, the nodes, as the whole graph counts them
    edges: Tensor  # [E] int64, the edges, as the whole graph counts them, ascending
    row: Tensor  # [E] int64, the row of each edge, from zero: its target
    col: Tensor  # [E] int64, the place of its column, the source
    component: Tensor  # [n] int64; those of several processes come first, all count them alike
    num_shared: int  # how many these are

    @property
    def num_ranks(self) -> int:
        """The number P of processes."""
        return self.begin.numel() - 1

    @property
    def num_nodes_in_all(self) -> int:
        """The number N of nodes of the whole graph."""
        return int(self.begin[-1])


def cut(structure: GraphStructure, partition: Partition, num_ranks: int, rank: int) -> RowRecord:
    """Cut the rows of a process out of a whole graph.

    Args:
        structure: the whole graph.
        partition: of its nodes. Blocks that follow each other go to one process where there are
            several times as many as processes.
        num_ranks: P.
        rank: which of them.

    Raises:
        ValueError: if the blocks cannot be shared evenly, or the nodes are of another number.
    """
    begin = _beginnings(partition, structure.num_nodes, num_ranks)
    row, col = (each.cpu() for each in structure.edges)
    place = partition.place
    low, high = int(begin[rank]), int(begin[rank + 1])
    row = place.index_select(0, row)
    edges = ((row >= low) & (row < high)).nonzero()[:, 0]
    component, num_shared = _components(structure.component.cpu()[partition.order], begin, rank)
    return RowRecord(
        begin,
        rank,
        partition.order[low:high].clone(),
        edges,
        row.index_select(0, edges) - low,
        place.index_select(0, col.index_select(0, edges)),
        component,
        num_shared,
    )


def _beginnings(partition: Partition, num_nodes: int, num_ranks: int) -> Tensor:
    """The place where the rows of each process begin."""
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


def _components(component: Tensor, begin: Tensor, rank: int) -> tuple[Tensor, int]:
    """Number components [N], in the order of the partition, as one process does.

    Those that several processes share come first. Of the others each counts its own.
    """
    count = int(component.max()) + 1 if component.numel() else 0
    owner = torch.arange(begin.numel() - 1).repeat_interleave(begin.diff())
    first = component.new_full((count,), begin.numel()).scatter_reduce(0, component, owner, "amin")
    last = component.new_full((count,), -1).scatter_reduce(0, component, owner, "amax")
    is_shared = first < last
    num_shared = int(is_shared.sum())
    own = component[int(begin[rank]) : int(begin[rank + 1])]
    number = is_shared.cumsum(0) - 1
    mine = torch.unique(own[~is_shared[own]])
    number[mine] = num_shared + torch.arange(mine.numel())
    return number.index_select(0, own), num_shared
