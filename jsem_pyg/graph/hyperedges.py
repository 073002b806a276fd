"""Hyperedges from points and graphs: memberships [2, M], node and hyperedge."""

import torch
from torch import Tensor

from .._checks import (
    check_edge_index,
    check_positive_int,
    check_tensor,
)
from .knn import knn_search


def knn_hyperedges(x: Tensor, k: int = 15, metric: str = "cosine") -> Tensor:
    """Make a hyperedge of every point and its k nearest neighbours.

    Args:
        x: [N, F] points.
        k: neighbours of each point, 0 < k < N.
        metric: "cosine" or "l2".

    Returns:
        [2, N (k + 1)] memberships; hyperedge i begins with its point i.

    Raises:
        TypeError: if `x` is not floating-point, or `k` not an integer.
        ValueError: if :func:`~jsem_pyg.graph.knn_search` refuses the points.

    Source: Feng et al., "Hypergraph neural networks", 2019, section 4.2.

    Example:
        >>> knn_hyperedges(torch.tensor([[0.0], [1.0], [3.0], [3.5]]), k=1, metric="l2")
        tensor([[0, 1, 1, 0, 2, 3, 3, 2],
                [0, 0, 1, 1, 2, 2, 3, 3]])
    """
    check_tensor("x", x)
    neighbor, _ = knn_search(x, k, metric)
    point = torch.arange(x.size(0), device=x.device)
    return as_memberships(torch.cat([point[:, None], neighbor], dim=1))


def clique_hyperedges(edge_index: Tensor, num_nodes: int, size: int = 3) -> Tensor:
    """Make a hyperedge of every clique of `size` nodes: 2 for the edges, 3 for the triangles.

    Args:
        edge_index: [2, E]; direction, repetition and self-loops do not matter.
        num_nodes: N.
        size: nodes of a clique, at least 2.

    Returns:
        [2, size C] memberships of the C cliques, in lexicographic order.

    Raises:
        TypeError: if `size` is not an integer.
        ValueError: if the graph is out of range, or `size` below 2.

    Example:
        >>> clique_hyperedges(torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]]), num_nodes=4)
        tensor([[0, 1, 2],
                [0, 0, 0]])
    """
    check_edge_index(edge_index, num_nodes)
    check_positive_int("size", size)
    if size < 2:
        raise ValueError(f"Expected 'size' to be at least 2 (got {size}).")
    low, high = edge_index.min(dim=0).values.long(), edge_index.max(dim=0).values.long()
    width = max(num_nodes, 1)
    key = torch.unique((low * width + high)[low != high])  # sorted by low, then high
    low, high = key // width, key % width
    cliques = torch.stack([low, high], dim=1)
    pointer = torch.searchsorted(low, torch.arange(num_nodes + 1, device=low.device))
    for _ in range(size - 2):
        cliques = _grow(cliques, key, high, pointer)
    return as_memberships(cliques)


def _grow(cliques: Tensor, key: Tensor, high: Tensor, pointer: Tensor) -> Tensor:
    """[C, s] cliques in ascending order -> all [C', s + 1] that add a node after their last."""
    last = cliques[:, -1]
    count = pointer[last + 1] - pointer[last]
    parent = torch.arange(last.numel(), device=last.device).repeat_interleave(count)
    first = count.cumsum(0) - count
    step = torch.arange(parent.numel(), device=last.device) - first[parent]
    node = high[pointer[last][parent] + step]
    wanted = cliques[parent] * max(pointer.numel() - 1, 1) + node[:, None]
    found = torch.searchsorted(key, wanted).clamp(max=max(key.numel() - 1, 0))
    is_clique = (key[found] == wanted).all(dim=1)
    return torch.cat([cliques[parent], node[:, None]], dim=1)[is_clique]


def as_memberships(members: Tensor) -> Tensor:
    """[E, s] the members of hyperedges of one size -> [2, E s] memberships."""
    hyperedge = torch.arange(members.size(0), device=members.device)
    return torch.stack([members.flatten(), hyperedge.repeat_interleave(members.size(1))])
