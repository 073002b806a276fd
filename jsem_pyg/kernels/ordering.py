"""An order of rows in which neighbours come close after one another."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

Array = NDArray[Any]


def bandwidth_order(rowptr: Array, col: Array) -> Array:
    """The nodes [N] of a symmetric pattern in reverse Cuthill-McKee order.

    Rows that are gathered together are then often in a cache already.

    Args:
        rowptr: [N + 1] where each row begins.
        col: [nnz] the columns.

    Source: Cuthill and McKee, "Reducing the bandwidth of sparse symmetric matrices", 1969.
    """
    size = rowptr.size - 1
    if col.size == 0:
        return np.arange(size)
    ones = np.ones(col.size, np.int8)
    matrix = csr_array((ones, col.astype(np.int32), rowptr), shape=(size, size))
    return reverse_cuthill_mckee(matrix, symmetric_mode=True).astype(np.int64)
