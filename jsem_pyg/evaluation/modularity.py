"""Modularity of a partition of a graph."""

import torch
from torch import Tensor

from .._checks import check_edge_index, check_edge_weight, check_labels

# Edges that are looked at together: the labels at both ends of a large graph take gigabytes.
_CHUNK = 1 << 22


def modularity(edge_index: Tensor, edge_weight: Tensor | None, labels: Tensor) -> float:
    r"""Compute the share of edge weight inside clusters, less the share expected by chance.

    .. math::
        \sum_c \left( \frac{w_c}{w} - \left( \frac{d_c}{w} \right)^2 \right)

    with the weight :math:`w` of all directed edges, :math:`w_c` of those inside cluster c, and
    :math:`d_c` the mean of those that start and that end there: the modularity of the undirected
    graph, whether its edges are given in both directions or in one.

    Args:
        edge_index: [2, E], both directions of every edge, or one.
        edge_weight: [E], or None for ones.
        labels: [N] integers >= 0, the cluster of each node.

    Returns:
        A number in [-0.5, 1]; 0 for a graph without weight.

    Source: Newman and Girvan, "Finding and evaluating community structure in networks", 2004, with
    weights as in Newman, "Analysis of weighted networks", 2004.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> modularity(edge_index, None, torch.tensor([0, 0, 1, 1]))
        0.5
    """
    check_labels("labels", labels)
    if labels.numel() and int(labels.min()) < 0:
        raise ValueError(f"Expected 'labels' to be >= 0 (got {int(labels.min())}).")
    labels = labels.unique(return_inverse=True)[1]  # memory for clusters, not for large numbers
    check_edge_index(edge_index, labels.numel())
    if edge_weight is not None:
        check_edge_weight(edge_weight, edge_index.size(1))
    inside, source = _sums(edge_index, edge_weight, labels)
    target = _sums(edge_index.flip(0), edge_weight, labels)[1]
    return _modularity(2 * inside, source + target)  # half of the least number is zero


def cut_and_modularity(
    edge_index: Tensor, edge_weight: Tensor | None, labels: Tensor
) -> tuple[float, float]:
    """Compute the share of weight between clusters, and the modularity.

    Arguments are checked, and edges have both directions.
    """
    inside, degree = _sums(edge_index, edge_weight, labels)
    cut = 1 - inside / degree.sum() if degree.sum() > 0 else 0
    return float(cut), _modularity(inside, degree)


def _sums(edge_index: Tensor, edge_weight: Tensor | None, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Sum the weight inside clusters, 0-d, and from every cluster [C], in float64."""
    if edge_weight is None:
        edge_weight = torch.ones(edge_index.size(1), device=edge_index.device)
    edge_weight = edge_weight.detach()
    num_clusters = int(labels.max()) + 1 if labels.numel() else 0
    inside = edge_weight.new_zeros((), dtype=torch.float64)
    degree = edge_weight.new_zeros(num_clusters, dtype=torch.float64)
    for begin in range(0, edge_index.size(1), _CHUNK):
        weight = edge_weight[begin : begin + _CHUNK].double()
        source, target = labels[edge_index[:, begin : begin + _CHUNK]]
        inside += weight[source == target].sum()
        degree += torch.bincount(source, weight, minlength=num_clusters)
    return inside, degree


def _modularity(inside: Tensor, degree: Tensor) -> float:
    total = degree.sum()
    if total == 0:
        return 0.0
    return float(inside / total - (degree / total).square().sum())
