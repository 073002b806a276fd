"""Ways to share the nodes of a graph among blocks of equal cost, behind one signature."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..._checks import check_choice
from ...graph import GraphStructure
from ...kernels.csr import CSR
from ...kernels.ordering import bandwidth_order, scipy_indices

Array = NDArray[Any]

# Of a row in a term of the series, beside two for each neighbour: the term before is subtracted,
# and the sum of the series goes on.
_OPERATIONS_OF_A_ROW = 4

# METIS counts weights in 32 bits.
_TOTAL_WEIGHT = 1 << 30

# (graph, P) -> [N] int64, the block of each node, of about equal cost. No block is empty; P is at
# most N.
Method = Callable[[GraphStructure, int], Array]


def row_costs(structure: GraphStructure) -> Array:
    """[N] the operations of each row in a term of the series."""
    cost: Array = (2 * structure.csr.degree.double() + _OPERATIONS_OF_A_ROW).cpu().numpy()
    return cost


def metis(structure: GraphStructure, num_parts: int) -> Array:
    """Blocks by METIS: few edges are cut.

    Source: Karypis and Kumar, "A fast and high quality multilevel scheme for partitioning irregular
    graphs", SIAM Journal on Scientific Computing 20 (1998).
    """
    import pymetis

    if structure.num_slots == 0 or num_parts == 1:
        return bandwidth(structure, num_parts)
    index = pymetis.zero_copy_dtype()
    col, rowptr = (each.astype(index) for each in scipy_indices(structure.csr))
    cost = row_costs(structure)
    # Beside a node above the share of a block METIS would leave other blocks nearly empty.
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
    # With a few nodes for each block METIS may leave a block empty.
    is_full = np.bincount(part, minlength=num_parts).all()
    return part if is_full else bandwidth(structure, num_parts)


def bandwidth(structure: GraphStructure, num_parts: int) -> Array:
    """Halves of halves in reverse Cuthill-McKee order: levels of a breadth-first search.

    Source: Berger and Bokhari, "A partitioning strategy for nonuniform problems on
    multiprocessors", IEEE Transactions on Computers C-36 (1987): recursive bisection by cost.
    """
    part: Array = np.zeros(structure.num_nodes, np.int64)
    counts = np.array([num_parts])
    while counts.max() > 1:
        part, counts = split_blocks(structure, part, counts)
    return part


# By name: the method, and the package that it needs beyond torch and SciPy. "auto" is the first
# that can run.
_METHODS: dict[str, tuple[Method, str | None]] = {
    "metis": (metis, "pymetis"),
    "bandwidth": (bandwidth, None),
}
METHODS = ("auto", *_METHODS)


def find_method(name: str) -> tuple[str, Method]:
    """The method with this name, and its name if `name` is "auto".

    Raises:
        ValueError: if there is no such method, or its package is not installed.
    """
    check_choice("method", name, METHODS)
    if name == "auto":
        name = next(each for each, (_, package) in _METHODS.items() if _is_there(package))
    method, package = _METHODS[name]
    if not _is_there(package):
        raise ValueError(
            f"Expected a 'method' that can run (got {name!r}: {package} is not installed). To fix "
            f'this, pip install {package}, or pass method="bandwidth".'
        )
    return name, method


def _is_there(package: str | None) -> bool:
    return package is None or find_spec(package) is not None


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


def split_blocks(structure: GraphStructure, part: Array, num_parts: Array) -> tuple[Array, Array]:
    """Split every block that is to become several parts in two, with shares of its cost to match.

    Blocks [N] are numbered from 0 to B - 1, none is empty, and each becomes `num_parts` [B], at
    most as many as its nodes. Returns the blocks, which now are more, and how many parts each of
    them is to become.
    """
    order, size = order_rows(structure, part), np.bincount(part)
    end = size.cumsum()
    total = np.concatenate([[0.0], row_costs(structure)[order].cumsum()])
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
