"""Shortest paths by SciPy: the reference."""

from typing import Any

from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

Array = NDArray[Any]


def distances(rowptr: Array, col: Array, length: Array, source: int, out: Array) -> None:
    """See the package."""
    size = rowptr.size - 1
    graph = csr_array((length, col, rowptr), shape=(size, size))
    out[:] = dijkstra(graph, indices=source)
