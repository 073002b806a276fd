"""Turns distances into edge weights in (0, 1], and directed neighbours into undirected edges.

Between these functions an undirected edge is one column (i, j) with i < j: the weights of both
directions are then the same number by construction.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# No weight is smaller: a zero would cut the edge, and curvature divides by square roots of weights.
MIN_WEIGHT = 1e-6

# The neighbour whose distance is the local width of "self_tuning", as in its paper (section 2).
_LOCAL_NEIGHBOR = 7


class AffinityKernel(NamedTuple):
    """A function from the distance of two nodes and their widths to the weight of their edge."""

    weight: Callable[[Tensor, Tensor, Tensor], Tensor]
    has_local_width: bool = False  # a width for each node, or one for the graph


def _exponent(distance: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return -(distance / a) * (distance / b)  # the product of two small widths may underflow


# Source of "self_tuning": Zelnik-Manor and Perona, "Self-tuning spectral clustering", NeurIPS 2004,
# equation 2.
KERNELS = {
    "gaussian": AffinityKernel(lambda distance, a, b: torch.exp(_exponent(distance, a, b) / 2)),
    "self_tuning": AffinityKernel(
        lambda distance, a, b: torch.exp(_exponent(distance, a, b)), has_local_width=True
    ),
    "cosine": AffinityKernel(lambda distance, a, b: 1 - distance / 2),
    None: AffinityKernel(lambda distance, a, b: torch.ones_like(distance)),
}


def _larger(weight: Tensor, edge: Tensor, count: Tensor) -> Tensor:
    return weight.new_zeros(count.numel()).scatter_reduce(0, edge, weight, "amax")


def _mean(weight: Tensor, edge: Tensor, count: Tensor) -> Tensor:
    return weight.new_zeros(count.numel()).index_add(0, edge, weight) / 2


# How the weights of directed edges are joined, and in how many directions an edge has to be found.
SYMMETRIZATIONS = {"max": (_larger, 1), "mean": (_mean, 1), "mutual": (_larger, 2)}


def node_width(distance: Tensor, kernel: str | None) -> Tensor:
    """Choose the width [N] of each node from its distances [N, k], ascending in each row.

    It is the median distance to the k-th neighbour, the same for all nodes, or, for "self_tuning",
    the node's own distance to its 7th neighbour, or the k-th if k < 7. A node surrounded by its
    duplicates has no width of its own: it does not count for the median, and gets it.
    """
    fallback = common_width(distance)
    if KERNELS[kernel].has_local_width:
        return local_width(distance, fallback)
    return fallback.expand(len(distance))


def local_width(distance: Tensor, fallback: Tensor) -> Tensor:
    """Return the distance [N] to the 7th neighbour (k-th if k < 7), or `fallback` if it is zero."""
    width = distance[:, min(_LOCAL_NEIGHBOR, distance.size(1)) - 1]
    # Duplicates may differ by rounding, so a negligible width counts as none.
    return torch.where(width <= torch.finfo(width.dtype).eps * fallback, fallback, width)


def common_width(distance: Tensor) -> Tensor:
    """Return the median of the positive distances to the k-th neighbour; infinite without any.

    Where all points have k copies only links between groups have a length, see `build.py`.
    """
    last = distance[:, -1]
    return last[last > 0].median().nan_to_num(nan=torch.inf)


def affinity(distance: Tensor, i: Tensor, j: Tensor, width: Tensor, kernel: str | None) -> Tensor:
    r"""Turn distances between nodes i and j, of one shape, into weights in [1e-6, 1].

    .. math::
        w_{ij} = \exp(-d_{ij}^2 / 2 \sigma^2), \qquad
        w_{ij} = \exp(-d_{ij}^2 / \sigma_i \sigma_j), \qquad
        w_{ij} = 1 - d_{ij} / 2 = (1 + \cos_{ij}) / 2, \qquad w_{ij} = 1

    for "gaussian", "self_tuning", "cosine" (of cosine distances) and None, with widths [N].
    """
    return KERNELS[kernel].weight(distance, width[i], width[j]).clamp(min=MIN_WEIGHT)


def undirected_edges(
    source: Tensor, target: Tensor, weight: Tensor, num_nodes: int, symmetrize: str
) -> tuple[Tensor, Tensor]:
    """Join the directions of edges from `source` [M] to `target` [M] with weights [M].

    Returns edges [2, M'] with i < j, sorted, and their weights [M'].

    "max" is the union of both directions with the larger weight, "mean" (W + W^T) / 2, in which an
    edge in one direction only gets half its weight, "mutual" the edges in both directions. An edge
    from a node to itself is left out.
    """
    join, directions = SYMMETRIZATIONS[symmetrize]
    other = source != target
    i, j, weight = source[other], target[other], weight[other]
    key = torch.minimum(i, j) * num_nodes + torch.maximum(i, j)
    key, edge, count = torch.unique(key, return_inverse=True, return_counts=True)
    pair, joined = torch.stack([key // num_nodes, key % num_nodes]), join(weight, edge, count)
    if directions == 1:
        return pair, joined
    return pair[:, count == directions], joined[count == directions]


def both_directions(pair: Tensor, weight: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Turn undirected edges [2, M] into a sorted `edge_index` [2, 2M] and its `edge_weight`."""
    edge_index = torch.cat([pair, pair.flip(0)], dim=1)
    order = (edge_index[0] * num_nodes + edge_index[1]).argsort()
    return edge_index[:, order], weight.repeat(2)[order]
