"""Node homophily: how often neighbours share a class."""

import torch
from torch import Tensor

from .._checks import check_edge_index, check_edge_weight, check_labels


def neighbour_purity(edge_index: Tensor, y: Tensor, edge_weight: Tensor | None = None) -> float:
    r"""Mean over nodes of the share of their neighbours that have their own class.

    .. math::
        \frac{1}{|V'|} \sum_{i \in V'}
        \frac{\sum_j w_{ij} [y_i = y_j]}{\sum_j w_{ij}}

    where V' are the nodes with neighbours: a node whose edges weigh nothing has no purity, and a
    self-loop makes no neighbour. This is the node homophily of Pei et al. 2020 (Geom-GCN,
    section 4), weighted; ``torch_geometric.utils.homophily(method="node")`` counts isolated nodes
    as zero instead.

    Args:
        edge_index: [2, E] node indices. In a directed graph the neighbours of a node are the
            sources of its incoming edges, as in message passing.
        y: [N] integer labels.
        edge_weight: [E] non-negative weights; one by default.

    Returns:
        A number in [0, 1].

    Raises:
        ValueError: if no node has a neighbour, or if shapes or indices do not match.
        TypeError: if `y` is not of integer type.

    Example:
        The middle of a path shares the class of one of its two neighbours:

        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> neighbour_purity(edge_index, torch.tensor([0, 0, 1]))
        0.5
    """
    check_labels("y", y)
    check_edge_index(edge_index, num_nodes=y.numel())
    if edge_weight is None:
        edge_weight = torch.ones(edge_index.size(1), device=edge_index.device)
    check_edge_weight(edge_weight, edge_index.size(1))

    source, target = edge_index
    # In double precision, so that the mean of a large graph is good to the last printed digit.
    weight = edge_weight.detach().double() * (source != target)
    if weight.numel():
        weight = weight / weight.max().clamp(min=1.0)  # so that no sum overflows
    same = weight * (y[source] == y[target])
    total = weight.new_zeros(y.numel()).index_add(0, target, weight)
    pure = weight.new_zeros(y.numel()).index_add(0, target, same)
    has_neighbour = total > 0
    if not bool(has_neighbour.any()):
        raise ValueError("Expected at least one edge between two nodes, with a positive weight.")
    return float((pure[has_neighbour] / total[has_neighbour]).mean())
