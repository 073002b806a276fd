"""Shortest paths by SciPy: the reference."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

Array = NDArray[Any]


def distances(rowptr: Array, col: Array, length: Array, source: int, out: Array) -> None:
    """See the package."""
    size = rowptr.size - 1
    col, rowptr = col.astype(np.int32, copy=False), rowptr.astype(np.int32, copy=False)
    graph = csr_array((length, col, rowptr), shape=(size, size))  # all that SciPy takes
    out[:] = dijkstra(graph, indices=source)
