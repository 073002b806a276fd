"""Distances -> edge weights in (0, 1], and directed neighbours -> undirected edges.

Between these functions an undirected edge is one column (i, j) with i < j: the weights of both
directions are then the same number by construction.
"""

import torch
from torch import Tensor

from .._checks import (
    check_choice,
    check_dense,
    check_finite,
    check_float,
    check_instance,
    check_integers,
    check_node_index,
)
from .groups import Groups, one_group

KERNELS = ("gaussian", "self_tuning", "cosine", None)
SYMMETRIZATIONS = ("max", "mean", "mutual")

# No weight is smaller: a zero would cut the edge, and curvature divides by square roots of weights.
MIN_WEIGHT = 1e-6

# The neighbour whose distance is the local width of "self_tuning", as in its paper (section 2).
_LOCAL_NEIGHBOR = 7


def node_width(distance: Tensor, kernel: str | None, groups: Groups | None = None) -> Tensor:
    """The width of each node, against which the kernels measure distances.

    It is the median distance to the k-th neighbour, the same for all nodes of a graph ("gaussian"),
    or the node's own distance to its 7th neighbour, or the k-th where k < 7 ("self_tuning"). A node
    surrounded by its duplicates has no width of its own and gets the median of all of them.

    Args:
        distance: [N, k] distances to the nearest neighbours, ascending in each row.
        kernel: one of "gaussian", "self_tuning", "cosine", None; the last two ignore widths.
        groups: the graphs that the nodes belong to; one if omitted.

    Returns:
        [N] positive widths.
    """
    _check_table("distance", distance)
    check_choice("kernel", kernel, KERNELS)
    if groups is not None:
        check_instance("groups", groups, Groups, "the groups of the points, or None")
    groups = one_group(distance.size(0)) if groups is None else groups
    fallback = common_width(distance, groups)[groups.label]
    if kernel == "self_tuning":
        return local_width(distance, fallback)
    last = distance[:, -1]
    return _unless_negligible(groups.median(last, last >= 0)[groups.label], fallback)


def local_width(distance: Tensor, fallback: Tensor) -> Tensor:
    """The distance [N] to the 7th neighbour, or the k-th where k < 7; `fallback` [N] for none."""
    return _unless_negligible(distance[:, min(_LOCAL_NEIGHBOR, distance.size(1)) - 1], fallback)


def common_width(distance: Tensor, groups: Groups) -> Tensor:
    """The median [G] of the positive distances to the k-th neighbour in each graph, or else 1."""
    last = distance[:, -1]
    return groups.median(last, last > 0).nan_to_num(nan=1.0)


def _unless_negligible(width: Tensor, fallback: Tensor) -> Tensor:
    # Duplicates may differ by rounding, so a negligible width counts as none.
    negligible = width <= torch.finfo(width.dtype).eps * fallback
    return torch.where(negligible, fallback, width)


def affinity(
    distance: Tensor, i: Tensor, j: Tensor, width: Tensor, kernel: str | None = "gaussian"
) -> Tensor:
    r"""Turn distances into weights; symmetric in i and j.

    .. math::
        w_{ij} = \exp(-d_{ij}^2 / 2 \sigma^2), \qquad
        w_{ij} = \exp(-d_{ij}^2 / \sigma_i \sigma_j), \qquad
        w_{ij} = 1 - d_{ij} / 2 = (1 + \cos_{ij}) / 2, \qquad w_{ij} = 1

    for "gaussian", "self_tuning", "cosine" and None; never below `MIN_WEIGHT`.

    Args:
        distance: [M] distances.
        i: [M] the nodes at one end.
        j: [M] the nodes at the other end.
        width: [N] positive widths, from :func:`node_width`.
        kernel: one of "gaussian", "self_tuning", "cosine" (for cosine distances), None.

    Returns:
        [M] weights in [1e-6, 1].

    Source: Zelnik-Manor and Perona, "Self-tuning spectral clustering", NeurIPS 2004, equation 2
    for "self_tuning".

    Example:
        >>> i, j = torch.tensor([0]), torch.tensor([1])
        >>> affinity(torch.tensor([1.0]), i, j, width=torch.ones(2), kernel="self_tuning")
        tensor([0.3679])
    """
    check_choice("kernel", kernel, KERNELS)
    _check_ends(distance, i, j, width)
    if kernel is None:
        return torch.ones_like(distance)
    if kernel == "cosine":
        return (1 - distance / 2).clamp(min=MIN_WEIGHT)
    # Two ratios, because the product of two small widths may underflow.
    exponent = (distance / width[i]) * (distance / width[j])
    if kernel == "gaussian":
        exponent = exponent / 2
    return torch.exp(-exponent).clamp(min=MIN_WEIGHT)


def undirected_edges(neighbor: Tensor, weight: Tensor, symmetrize: str) -> tuple[Tensor, Tensor]:
    """Join the directions of a neighbour relation.

    Args:
        neighbor: [N, k] the neighbours of each node; the node itself, where it has fewer, is left
            out.
        weight: [N, k] the weights W of these edges.
        symmetrize: "max" for the union of both directions with the larger weight, "mean" for
            (W + W^T) / 2, in which an edge in one direction only gets half its weight, "mutual"
            for the edges in both directions only; that may leave nodes without any.

    Returns:
        The edges [2, M] with i < j, sorted, and their weights [M].

    Example:
        >>> neighbor, weight = torch.tensor([[1], [2], [1]]), torch.ones(3, 1)
        >>> undirected_edges(neighbor, weight, symmetrize="mean")
        (tensor([[0, 1],
                [1, 2]]), tensor([0.5000, 1.0000]))
    """
    check_choice("symmetrize", symmetrize, SYMMETRIZATIONS)
    _check_table("weight", weight)
    check_integers("neighbor", neighbor)
    if neighbor.shape != weight.shape:
        raise ValueError(
            f"Expected 'neighbor' to have the shape of 'weight', {list(weight.shape)} (got "
            f"{list(neighbor.shape)})."
        )
    num_nodes, k = neighbor.shape
    check_node_index("neighbor", neighbor, num_nodes)
    i, j = torch.arange(num_nodes).repeat_interleave(k), neighbor.flatten()
    weight = weight.flatten()
    other = i != j
    if not bool(other.all()):
        i, j, weight = i[other], j[other], weight[other]
    key = torch.minimum(i, j) * num_nodes + torch.maximum(i, j)
    key, edge, count = torch.unique(key, return_inverse=True, return_counts=True)
    joined = weight.new_zeros(key.numel())
    if symmetrize == "mean":
        joined = joined.index_add(0, edge, weight) / 2
    else:
        joined = joined.scatter_reduce(0, edge, weight, "amax")
    pair = torch.stack([key // num_nodes, key % num_nodes])
    if symmetrize == "mutual":
        return pair[:, count == 2], joined[count == 2]
    return pair, joined


def both_directions(pair: Tensor, weight: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Undirected edges [2, M] -> a coalesced `edge_index` [2, 2M], sorted, and `edge_weight`."""
    edge_index = torch.cat([pair, pair.flip(0)], dim=1)
    order = (edge_index[0] * num_nodes + edge_index[1]).argsort()
    return edge_index[:, order], weight.repeat(2)[order]


def _check_table(name: str, value: Tensor) -> None:
    """Raise unless `value` is a finite floating-point tensor [N, k]."""
    check_float(name, value)
    check_dense(name, value)
    if value.dim() != 2 or value.size(1) == 0:
        raise ValueError(
            f"Expected '{name}' to have shape [N, k], a column for each neighbour (got "
            f"{list(value.shape)})."
        )
    check_finite(name, value)


def _check_ends(distance: Tensor, i: Tensor, j: Tensor, width: Tensor) -> None:
    """Raise unless distances and the nodes that they lie between fit, and are finite."""
    for name, value in (("distance", distance), ("width", width)):
        check_float(name, value)
        check_dense(name, value)
    if width.dim() != 1:
        raise ValueError(f"Expected 'width' to have shape [N] (got {list(width.shape)}).")
    check_finite("distance", distance)
    check_finite("width", width)
    for name, end in (("i", i), ("j", j)):
        check_integers(name, end)
        if end.shape != distance.shape:
            raise ValueError(
                f"Expected '{name}' to have the shape of 'distance', {list(distance.shape)} (got "
                f"{list(end.shape)})."
            )
        check_node_index(name, end, width.numel())
