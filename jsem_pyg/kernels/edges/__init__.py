"""From a list of edges to a sorted pattern, with the slot of the reverse of every edge."""

from torch import Tensor

from .sorted_edges import SortedEdges

__all__ = ["SortedEdges", "sort_edges"]


def sort_edges(row: Tensor, col: Tensor, num_nodes: int) -> SortedEdges | None:
    """Sort the edges of an undirected graph, merge equal ones, and find the reverse of each.

    On a CPU by counting, in numba; elsewhere by a key, in torch. None stands for an index outside
    [0, N), a self-loop, or an edge that has no reverse.
    """
    if row.device.type == "cpu":
        from .numba_count import sort_edges
    else:
        from .torch_sort import sort_edges
    return sort_edges(row, col, num_nodes)
