"""What blocks take in nanoseconds, in place of operations."""

import time
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import subgraph

from .._checks import check_finite, check_instance, check_positive_int, check_vector
from ..diffusion import heat_diffusion
from ..graph import GraphStructure
from .blocks import Partition
from .intensity import counted_cost
from .read import read_structure

_TRIES = 3


def measured_cost(
    edge_index: Any, partition: Partition, seconds: Tensor | None = None, *, channels: int = 16
) -> Tensor:
    """What each row costs in nanoseconds: those of its block, shared by operations.

    With these as `cost`, :func:`recursive_partition` makes blocks that take the same time, where
    those it made by counting do not: a block whose rows are far apart in memory, or which a slower
    machine works on, becomes smaller.

    Args:
        edge_index: the graph, in any form that :func:`recursive_partition` takes.
        partition: its blocks.
        seconds: [P] what each block has taken, such as the mean over the epochs of a run; None:
            diffusion in each block alone is timed here, the shortest of three times.
        channels: the columns of the signal that is diffused for this.

    Returns:
        [N] float64; rows of a block that took no time cost one.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if the graph is malformed, the partition is that of another one, or `seconds`
            are not finite and non-negative, one for each block.

    Example:
        A path of four nodes, of which the second half takes three times as long.

        >>> from jsem_pyg.partition import recursive_partition
        >>> edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> halves = recursive_partition(edge_index, 2, method="bandwidth")
        >>> first, second = halves.parts()
        >>> cost = measured_cost(edge_index, halves, torch.tensor([1e-9, 3e-9]))
        >>> cost[second].sum() / cost[first].sum()
        tensor(3.0000, dtype=torch.float64)
    """
    check_instance("partition", partition, Partition, "a Partition")
    check_positive_int("channels", channels)
    structure = read_structure(edge_index, partition.num_nodes)
    if seconds is None:
        seconds = _time_blocks(structure, partition, int(channels))
    else:
        check_vector("seconds", seconds, partition.num_parts, "block")
        check_finite("seconds", seconds)
        if bool((seconds < 0).any()):
            raise ValueError(f"Expected 'seconds' to be non-negative (got {float(seconds.min())}).")
    counted, part = counted_cost(structure), partition.part
    of_block = counted.new_zeros(partition.num_parts).index_add(0, part, counted)
    nanoseconds = 1e9 * seconds.detach().cpu().double()
    rate = nanoseconds / torch.where(of_block > 0, of_block, 1.0)
    cost = counted * rate.index_select(0, part)
    return torch.where(cost > 0, cost, 1.0)


def _time_blocks(structure: GraphStructure, partition: Partition, channels: int) -> Tensor:
    """[P] seconds of ten terms in each block, on its own edges."""
    edge_index = torch.stack(structure.edges)
    taken = []
    for nodes in partition.parts():
        size = nodes.numel()
        inside = subgraph(
            nodes.to(edge_index.device),
            edge_index,
            relabel_nodes=True,
            num_nodes=structure.num_nodes,
        )[0]
        block = GraphStructure(inside, size)
        x = torch.ones(size, channels, device=edge_index.device)
        times = []
        for _ in range(_TRIES if size else 0):
            started = time.perf_counter()
            heat_diffusion(x, block, degree=10)
            times.append(time.perf_counter() - started)
        taken.append(min(times, default=0.0))
    return torch.tensor(taken, dtype=torch.float64)
