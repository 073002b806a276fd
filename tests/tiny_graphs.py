"""Named graphs that are small enough to compute everything by hand.

Each function returns `edge_index` [2, E], both directions of every edge, and the number of nodes.
"""

import torch
from torch import Tensor

Graph = tuple[Tensor, int]


def undirected(edges: list[tuple[int, int]], num_nodes: int) -> Graph:
    """Both directions of the edges, first all as given, then all reversed."""
    forward = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    return torch.cat([forward, forward.flip(0)], dim=1), num_nodes


def ring(num_nodes: int = 5) -> Graph:
    """A cycle: every node has degree two; there is no triangle if it has more than three nodes."""
    return undirected([(i, (i + 1) % num_nodes) for i in range(num_nodes)], num_nodes)


def star(num_leaves: int = 4) -> Graph:
    """Node 0 in the middle, joined to all others, which have degree one."""
    return undirected([(0, i + 1) for i in range(num_leaves)], num_leaves + 1)


def triangle_with_tail() -> Graph:
    """A triangle 0, 1, 2 and an edge from 2 to 3. Columns: 01, 02, 12, 23, then reversed."""
    return undirected([(0, 1), (0, 2), (1, 2), (2, 3)], 4)


def two_parts() -> Graph:
    """Two triangles, 0, 1, 2 and 3, 4, 5, that do not touch."""
    return undirected([(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)], 6)


def empty() -> Graph:
    """No node, no edge."""
    return undirected([], 0)


def single_node() -> Graph:
    """One node, no edge."""
    return undirected([], 1)
