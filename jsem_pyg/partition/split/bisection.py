"""Blocks are split in two along the levels of a breadth-first search, all of them at once."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...graph import GraphStructure
from ...kernels.csr import CSR
from ...kernels.ordering import bandwidth_order

Array = NDArray[Any]


def order_rows(structure: GraphStructure, part: Array) -> Array:
    """[N] the nodes block by block, those of each block in reverse Cuthill-McKee order."""
    block = torch.from_numpy(part)
    row, col = structure.row.cpu(), structure.col.cpu()
    is_inside = block.index_select(0, row) == block.index_select(0, col)
    count = torch.bincount(row[is_inside], minlength=structure.num_nodes)
    inside = CSR(torch.cat([count.new_zeros(1), count.cumsum(0)]), col[is_inside])
    node = bandwidth_order(inside).node.numpy()
    order: Array = node[np.argsort(part[node], kind="stable")].astype(np.int64)
    return order


def split_blocks(
    structure: GraphStructure, cost: Array, part: Array, num_parts: Array
) -> tuple[Array, Array]:
    """Split every block that is to become several parts in two, with shares of its cost to match.

    Blocks [N] are numbered from 0 to B - 1, none is empty, and each becomes `num_parts` [B], at
    most as many as its nodes. Returns the blocks, which now are more, and how many parts each of
    them is to become.
    """
    order, size = order_rows(structure, part), np.bincount(part)
    end = size.cumsum()
    total = np.concatenate([[0.0], cost[order].cumsum()])
    left = num_parts // 2
    begin_cost, end_cost = total[end - size], total[end]
    wanted = begin_cost + (end_cost - begin_cost) * left / num_parts
    middle = np.minimum(np.searchsorted(total, wanted), end)
    nearer = wanted - total[middle - 1] < total[middle] - wanted
    # As many nodes on each side as there are to be parts.
    middle = np.clip(middle - nearer, end - size + left, end - (num_parts - left))
    is_second = np.arange(order.size) >= np.repeat(middle, size)
    halves = np.empty_like(part)
    halves[order] = np.repeat(2 * np.arange(size.size), size) + is_second
    counts = np.stack([left, num_parts - left], 1).ravel()
    return np.unique(halves, return_inverse=True)[1], counts[counts > 0]
