"""Ways to share the nodes of a graph among blocks of equal cost, behind one signature."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..._checks import check_choice
from ...graph import GraphStructure
from ...kernels.bandwidth import bandwidth_order
from ...kernels.csr import CSR, scipy_indices

Array = NDArray[Any]

# A row takes these in a term of the series, and two more for each neighbour: the term before is
# subtracted, and the result is added to the sum.
_OPERATIONS_OF_A_ROW = 4

# METIS counts weights in 32 bits.
_TOTAL_WEIGHT = 1 << 30

# (graph, P) -> [N] int64, the block of each node. Blocks have about equal cost, and none is empty;
# 1 <= P <= N.
Method = Callable[[GraphStructure, int], Array]


def row_costs(structure: GraphStructure) -> Array:
    """Count the operations of each row in a term of the series: [N]."""
    cost: Array = (2 * structure.csr.degree.double() + _OPERATIONS_OF_A_ROW).cpu().numpy()
    return cost


def metis(structure: GraphStructure, num_parts: int) -> Array:
    """Make blocks by METIS: few edges are cut.

    Source: Karypis and Kumar, "A fast and high quality multilevel scheme for partitioning irregular
    graphs", SIAM Journal on Scientific Computing 20 (1998).
    """
    import pymetis

    index = pymetis.zero_copy_dtype()
    col, rowptr = (array.astype(index) for array in scipy_indices(structure.csr))
    cost = row_costs(structure)
    # If a node cost more than the share of a block, METIS would leave other blocks nearly empty.
    cost = np.minimum(cost, cost.sum() / num_parts)
    weight = np.rint(cost * (_TOTAL_WEIGHT / cost.sum()))
    _, found = pymetis.part_graph(
        num_parts,
        pymetis.CSRAdjacency(rowptr, col),
        vweights=np.maximum(weight, 1).astype(index),
        recursive=True,  # so that blocks with near numbers are near each other
        options=pymetis.Options(seed=0),
    )
    part: Array = np.asarray(found, np.int64)
    is_used = np.bincount(part, minlength=num_parts) > 0
    # METIS may leave a block empty if there are only a few nodes for each.
    return part if is_used.all() else bandwidth(structure, num_parts)


def bandwidth(structure: GraphStructure, num_parts: int) -> Array:
    """Halve blocks in reverse Cuthill-McKee order, which follows a breadth-first search.

    Source: Berger and Bokhari, "A partitioning strategy for nonuniform problems on
    multiprocessors", IEEE Transactions on Computers C-36 (1987): recursive bisection by cost.
    """
    part: Array = np.zeros(structure.num_nodes, np.int64)
    counts = np.array([num_parts])
    while counts.max() > 1:
        part, counts = split_blocks(structure, part, counts)
    return part


METHODS = ("auto", "metis", "bandwidth")


def find_method(name: str) -> Method:
    """Find the method with this name; "auto" is METIS if that is installed, else bandwidth."""
    check_choice("method", name, METHODS)
    if name == "bandwidth":
        return bandwidth
    if find_spec("pymetis") is not None:
        return metis
    if name == "auto":
        return bandwidth
    raise ValueError(
        "Expected a 'method' that can run (got 'metis': pymetis is not installed). To fix this, "
        'pip install pymetis, or pass method="bandwidth".'
    )


def order_rows(structure: GraphStructure, part: Array) -> Array:
    """Order nodes [N] block by block, and within a block in reverse Cuthill-McKee order."""
    block = torch.from_numpy(part)
    row, col = structure.row.cpu(), structure.col.cpu()
    is_inside = block.index_select(0, row) == block.index_select(0, col)
    count = torch.bincount(row[is_inside], minlength=structure.num_nodes)
    inside = CSR(torch.cat([count.new_zeros(1), count.cumsum(0)]), col[is_inside])
    node = bandwidth_order(inside).node.numpy()
    order: Array = node[np.argsort(part[node], kind="stable")].astype(np.int64)
    return order


def split_blocks(structure: GraphStructure, part: Array, num_parts: Array) -> tuple[Array, Array]:
    """Split in two every block that has to become several parts, with costs to match.

    Blocks [N] are numbered from 0 to B - 1, none is empty, and block b becomes `num_parts[b]`
    parts, at most the number of its nodes. Returns the new blocks [N], and into how many parts each
    of them has to be split.
    """
    order, size = order_rows(structure, part), np.bincount(part)
    end = size.cumsum()
    total = np.concatenate([[0.0], row_costs(structure)[order].cumsum()])
    left = num_parts // 2
    begin_cost, end_cost = total[end - size], total[end]
    wanted = begin_cost + (end_cost - begin_cost) * left / num_parts
    middle = np.minimum(np.searchsorted(total, wanted), end)
    nearer = wanted - total[middle - 1] < total[middle] - wanted
    # On each side there are at least as many nodes as parts.
    middle = np.clip(middle - nearer, end - size + left, end - (num_parts - left))
    is_second = np.arange(order.size) >= np.repeat(middle, size)
    halves = np.empty_like(part)
    halves[order] = np.repeat(2 * np.arange(size.size), size) + is_second
    counts = np.stack([left, num_parts - left], 1).ravel()
    return np.unique(halves, return_inverse=True)[1], counts[counts > 0]
