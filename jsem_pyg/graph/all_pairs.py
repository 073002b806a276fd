"""Small graphs by all their pairs of points, many graphs at once."""

import torch
from torch import Tensor

from .points import Points


def all_pairs_neighbors(
    points: Points, nodes: Tensor, valid: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """The k nearest other points of every point in its graph.

    Args:
        points: the N points.
        nodes: [B, n] the points of B graphs, ascending in each.
        valid: [B, n] whether there is a point, or only the end of a graph.
        k: how many, at most n.

    Returns:
        Neighbours and distances [B, n, k], ascending; ties go to the lower index. Distances are
        infinite where a graph has fewer other points.
    """
    distance = _distances(points, nodes)
    apart = ~torch.eye(nodes.size(1), dtype=torch.bool)
    distance = distance.masked_fill(~(valid[:, None] & apart), torch.inf)
    distance, order = distance.sort(dim=2, stable=True)
    neighbor = nodes[:, None].expand_as(order).gather(2, order[:, :, :k])
    return neighbor, distance[:, :, :k]


def all_pairs_links(points: Points, nodes: Tensor, valid: Tensor, label: Tensor) -> Tensor:
    """The nearest point with another label, of every point that has one in its graph.

    Args:
        points: the N points.
        nodes: [B, n] the points of B graphs.
        valid: [B, n] whether there is a point.
        label: [N] the component of each point.

    Returns:
        Links [2, M], from those points to the ones found.
    """
    outside = (label[nodes][:, :, None] != label[nodes][:, None]) & valid[:, None]
    distance = _distances(points, nodes).masked_fill(~outside, torch.inf)
    nearest = nodes.gather(1, distance.argmin(2))
    has_link = outside.any(2) & valid
    return torch.stack([nodes[has_link], nearest[has_link]])


def _distances(points: Points, nodes: Tensor) -> Tensor:
    """[B, n, n], from coordinate differences."""
    coordinates = points.coordinates[nodes]
    apart = torch.cdist(coordinates, coordinates, compute_mode="donot_use_mm_for_euclid_dist")
    return points.from_squared(apart.square(), points.scale[nodes][:, :, None])
