"""Split the nodes of a graph into a number of blocks, or into blocks that fit a memory."""

import logging
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._checks import check_instance, check_positive_int
from ...graph import GraphStructure
from ...graph.reader import read_structure
from .methods import Array, Method, find_method, order_rows, split_blocks
from .partition import Partition

_log = logging.getLogger(__name__)

# Forward and backward pass keep these for every row, in tiles of the columns: the last two terms of
# both recurrences, and the gradient or the result. They gather a term of both from the halo.
_TILES_OF_A_ROW, _TILES_OF_A_HALO_ROW = 5, 2
# A slot has its column in 32 bits, its value and the gradient of the value.
_INDEX_BYTES, _NUMBERS_OF_A_SLOT = 4, 2
_POINTER_BYTES = 8

# If blocks are too large, there are more of them by this factor than their mean size requires.
# After so many tries, those that are still too large are halved.
_MARGIN, _TRIES = 1.1, 2


def recursive_partition(
    edge_index: Any,
    num_parts: int | None = None,
    *,
    max_bytes: int | None = None,
    method: str = "auto",
    num_nodes: int | None = None,
    channels: int = 16,
    dtype: torch.dtype = torch.float32,
) -> Partition:
    """Split the nodes of a graph into blocks of equal cost with few edges between them.

    The cost of a node is the number of operations that a term of a series takes for its row.
    There are `num_parts` blocks, or as many as it takes for the working set of each to be at most
    `max_bytes`. Blocks with near numbers lie near each other, so that ranges of blocks are good
    blocks as well. Within a block, rows are in reverse Cuthill-McKee order.

    Args:
        edge_index: [2, E] tensor, sparse tensor, or :class:`~jsem_pyg.graph.GraphStructure`: both
            directions of every edge, no self-loops.
        num_parts: the number P of blocks. If there are more than nodes, the last ones are empty.
        max_bytes: bytes of a cache or a device that a block's rows, halo and edges have to fit in,
            with the tile of every term that forward and backward pass keep.
        method: "metis" (few edges are cut; the extra `[partition]`), "bandwidth" (halves of halves
            along the levels of a breadth-first search), or "auto": "metis" if it is installed, else
            "bandwidth".
        num_nodes: N. None: the largest index + 1, or the number of nodes of the structure.
        channels: the columns of a tile, for `max_bytes`: 16 for a cache, all columns of the signal
            for a device.
        dtype: the type of the signal, for `max_bytes`.

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
        got = f"{num_parts!r} and {max_bytes!r}"
        raise ValueError(f"Expected either 'num_parts' or 'max_bytes' (got {got}).")
    for name, number in {"num_parts": num_parts, "max_bytes": max_bytes}.items():
        if number is not None:
            check_positive_int(name, number)
    check_positive_int("channels", channels)
    check_instance("dtype", dtype, torch.dtype, "a torch.dtype")
    share = find_method(method)
    structure = read_structure(edge_index, num_nodes)
    if structure.num_nodes == 0:
        part: Array = np.empty(0, np.int64)
    elif num_parts is not None:
        part = share(structure, min(int(num_parts), structure.num_nodes))
    else:
        assert max_bytes is not None
        part = _parts_that_fit(share, structure, int(max_bytes), int(channels), dtype.itemsize)
    block, count = torch.from_numpy(part), num_parts or int(part.max(initial=0)) + 1
    order = torch.from_numpy(order_rows(structure, part))
    ptr = torch.cat([order.new_zeros(1), torch.bincount(block, minlength=count).cumsum(0)])
    partition = Partition(order, ptr, halo_sizes(structure, block, count))
    _log.info("Split %d nodes by %r into %r.", structure.num_nodes, share.__name__, partition)
    return partition


def _parts_that_fit(
    method: Method, structure: GraphStructure, max_bytes: int, channels: int, itemsize: int
) -> Array:
    """Make blocks [N] whose working sets keep within a limit: a good number, halved if need be."""

    def needed_by(part: Array) -> Array:
        blocks = torch.from_numpy(part)
        count = int(part.max()) + 1
        return working_sets(structure, blocks, count, channels, itemsize).numpy()

    part: Array = np.zeros(structure.num_nodes, np.int64)
    num_parts = 1
    needed = needed_by(part)
    for _ in range(_TRIES):
        if needed.max() <= max_bytes:
            return part
        enough = math.ceil(_MARGIN * float(needed.sum()) / max_bytes)
        num_parts = min(max(enough, num_parts + 1), structure.num_nodes)
        part = method(structure, num_parts)
        needed = needed_by(part)
    while (is_too_large := needed > max_bytes).any():
        alone = is_too_large & (np.bincount(part) == 1)
        if alone.any():
            first = int(np.flatnonzero(alone[part])[0])
            raise ValueError(
                "Expected 'max_bytes' to hold every single row with its neighbours (got "
                f"{max_bytes}, but node {first} takes {needed[part[first]]})."
            )
        part, _ = split_blocks(structure, part, 1 + is_too_large)
        needed = needed_by(part)
    return part


def halo_sizes(structure: GraphStructure, part: Tensor, num_parts: int) -> Tensor:
    """Count the nodes outside of each block that are neighbours of a node inside: [P]."""
    row, col = structure.row.cpu().long(), structure.col.cpu().long()
    of_row = part.index_select(0, row)
    is_cut = of_row != part.index_select(0, col)
    fetched = torch.unique(of_row[is_cut] * structure.num_nodes + col[is_cut])
    return torch.bincount(fetched // max(structure.num_nodes, 1), minlength=num_parts)


def working_sets(
    structure: GraphStructure, part: Tensor, num_parts: int, channels: int, itemsize: int
) -> Tensor:
    """Count the bytes of each block: rows, halo, edges and all their tiles: [P]."""
    rows = torch.bincount(part, minlength=num_parts)
    slots = torch.bincount(part.index_select(0, structure.row.cpu().long()), minlength=num_parts)
    halo = halo_sizes(structure, part, num_parts)
    tiles = (_TILES_OF_A_ROW * rows + _TILES_OF_A_HALO_ROW * halo) * channels * itemsize
    return tiles + slots * (_INDEX_BYTES + _NUMBERS_OF_A_SLOT * itemsize) + rows * _POINTER_BYTES
