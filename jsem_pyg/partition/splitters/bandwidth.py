"""Bisection along the levels of a breadth-first search: no package needed beyond SciPy."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from .block import Array, Block, cut


def order_rows(adjacency: csr_array) -> Array:
    """The rows of a symmetric pattern in reverse Cuthill-McKee order."""
    if adjacency.nnz == 0:
        return np.arange(adjacency.shape[0])
    return np.ascontiguousarray(reverse_cuthill_mckee(adjacency, symmetric_mode=True))


def split(block: Block, share: float) -> Array:
    """See :data:`.block.Splitter`: what comes first in reverse Cuthill-McKee order.

    Source: Cuthill and McKee, "Reducing the bandwidth of sparse symmetric matrices", 1969.
    """
    return cut(order_rows(block.adjacency), block.cost, share)
