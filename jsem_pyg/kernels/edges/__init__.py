"""From a list of edges to a sorted pattern, with the slot of the reverse of every edge.

Every backend has the function ``sort_edges(row, col, num_nodes) -> SortedEdges | None``: it sorts
the edges (row, col) of an undirected graph, merges equal ones and finds the reverse of each. None
stands for an index outside [0, N), a self-loop, or an edge that has no reverse.

=======  =========================================  ==========
"torch"  sorting by a key                           any device
"numba"  counting, by column and by row, compiled   CPU
=======  =========================================  ==========
"""

from .sorted_edges import SortedEdges

__all__ = ["SortedEdges"]
