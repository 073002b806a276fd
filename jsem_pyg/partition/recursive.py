"""Split a graph in two, and its halves, until every block fits."""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from .._checks import (
    check_finite,
    check_instance,
    check_points,
    check_positive_int,
    check_rows,
    check_vector,
)
from ..graph import GraphStructure
from ..kernels.ordering import cuthill_mckee, scipy_indices
from .blocks import Partition
from .coordinates import diffusion_coordinates
from .goals import ByteLimit, Goal, PartCount
from .halo import halo_sizes
from .intensity import counted_cost
from .read import read_structure
from .splitters import Block, choose_method, find_splitter
from .splitters.hilbert import along_curve
from .tree import Branch, grow

_log = logging.getLogger(__name__)


def recursive_partition(
    edge_index: Any,
    num_parts: int | None = None,
    *,
    max_bytes: int | None = None,
    method: str = "auto",
    num_nodes: int | None = None,
    points: Tensor | None = None,
    cost: Tensor | None = None,
    channels: int = 16,
    dtype: torch.dtype = torch.float32,
) -> Partition:
    """Split the nodes of a graph into blocks with few edges between them.

    The block of the highest intensity is split in two, again and again: until there are `num_parts`
    blocks, or until the working set of each is at most `max_bytes`. Intensity is what the rows of a
    block cost in time, but for the costliest of them, which no split makes any cheaper: so a hub
    attracts no more splits than its neighbours. Halves get equal shares of the cost, or, on the way
    to a number of parts that is no power of two, shares that lead to equal parts. Within a block,
    rows are in reverse Cuthill-McKee order.

    Args:
        edge_index: [2, E] tensor, sparse tensor, or :class:`~jsem_pyg.graph.GraphStructure`: both
            directions of every edge, no self-loops.
        num_parts: the number P of blocks. If there are more than nodes, the last ones are empty.
        max_bytes: bytes of a cache or a device that a block's rows, halo and edges have to fit in,
            with the tile of every term that forward and backward pass keep.
        method: "metis" (multilevel; the extra `[partition]`), "bandwidth" (levels of a
            breadth-first search), "hilbert" (a curve through `points`, or through the first
            diffusion coordinates of the graph), or "auto": "metis" if it is installed, else
            "bandwidth".
        num_nodes: N; the largest index + 1, or that of the structure, where it is None.
        points: [N, d] where the nodes lie, for "hilbert".
        cost: [N] positive, what each row costs, such as measured nanoseconds; None: operations,
            counted from its edges.
        channels: the columns of a tile, for `max_bytes`: 16 for a cache, all of a signal's for a
            device.
        dtype: the type of the signal, for `max_bytes`.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if both or none of `num_parts` and `max_bytes` are given, a single row does not
            fit `max_bytes`, `method` is none of these or cannot run, the graph is malformed, or
            sizes do not fit.

    Source: Berger and Bokhari, "A partitioning strategy for nonuniform problems on
    multiprocessors", IEEE Transactions on Computers C-36 (1987): recursive bisection by cost.

    Example:
        Two triangles, joined by an edge.

        >>> one_way = torch.tensor([[0, 0, 1, 2, 3, 3, 4], [1, 2, 2, 3, 4, 5, 5]])
        >>> edge_index = torch.cat([one_way, one_way.flip(0)], dim=1)
        >>> partition = recursive_partition(edge_index, 2, method="bandwidth")
        >>> sorted(sorted(part.tolist()) for part in partition.parts())
        [[0, 1, 2], [3, 4, 5]]
        >>> partition.halo
        tensor([1, 1])
    """
    if (num_parts is None) == (max_bytes is None):
        raise ValueError(
            "Expected either 'num_parts' or 'max_bytes' "
            f"(got {'none' if num_parts is None else 'both'} of them)."
        )
    for each, number in {"num_parts": num_parts, "max_bytes": max_bytes}.items():
        if number is not None:
            check_positive_int(each, number)
    check_positive_int("channels", channels)
    check_instance("dtype", dtype, torch.dtype, "a torch.dtype")
    name = choose_method(method)
    structure = read_structure(edge_index, num_nodes)
    whole = _whole(structure, cost, points)
    if name == "hilbert":
        where = diffusion_coordinates(structure) if points is None else points.detach().cpu()
        whole = whole._replace(curve=along_curve(where.double().numpy()))
    goal: Goal
    if num_parts is not None:
        goal = PartCount(int(num_parts), float(whole.cost.sum()))
    else:
        assert max_bytes is not None
        goal = ByteLimit(int(max_bytes), structure, int(channels), dtype.itemsize)
    partition = _flatten(grow(whole, find_splitter(name), goal), structure, num_parts or 1)
    _log.info("Split %d nodes by %r into %r.", structure.num_nodes, name, partition)
    return partition


def _whole(structure: GraphStructure, cost: Tensor | None, points: Tensor | None) -> Block:
    """The graph as one block."""
    if cost is None:
        cost = counted_cost(structure)
    else:
        check_vector("cost", cost, structure.num_nodes, "node")
        check_finite("cost", cost)
        if not bool((cost > 0).all()):
            raise ValueError(f"Expected 'cost' to be positive (got {float(cost.min())}).")
    if points is not None:
        check_points("points", points)
        check_rows("points", points, structure.num_nodes, "node")
    size = structure.num_nodes
    ones = np.ones(structure.num_slots, np.int8)
    return Block(
        csr_array((ones, *scipy_indices(structure.csr)), shape=(size, size)),
        cost.detach().cpu().double().numpy(),
        None,
    )


def _flatten(tree: Branch, structure: GraphStructure, num_parts: int) -> Partition:
    """The leaves of a tree, one after another, and empty parts where there are too few."""
    leaves = tree.leaves()
    order = np.concatenate([leaf.nodes[cuthill_mckee(leaf.block.adjacency)] for leaf in leaves])
    sizes = [leaf.nodes.size for leaf in leaves] + [0] * (num_parts - len(leaves))
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    partition = Partition(torch.from_numpy(order), ptr, torch.from_numpy(tree.splits()))
    halo = halo_sizes(structure, partition.part, partition.num_parts)
    return replace(partition, halo=halo)
