"""Compares all pairs of points of small graphs, many graphs at once."""

import torch
from torch import Tensor

from .points import Points


def all_pairs_neighbors(
    points: Points, nodes: Tensor, valid: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """Find the k nearest other points of every point in its graph.

    Args:
        points: the points of all graphs.
        nodes: [B, n] the points of B graphs, ascending in each.
        valid: [B, n] which of these are points; the others fill up.
        k: how many.

    Returns:
        Neighbours and distances [B, n, k]. Ties go to the lower number; distances are infinite if a
        graph has fewer other points.
    """
    distance = _distances(points, nodes)
    apart = ~torch.eye(nodes.size(1), dtype=torch.bool)
    distance = distance.masked_fill(~(valid[:, None] & apart), torch.inf)
    distance, order = distance.sort(dim=2, stable=True)
    neighbor = nodes[:, None].expand_as(order).gather(2, order[:, :, :k])
    return neighbor, distance[:, :, :k]


def all_pairs_links(points: Points, nodes: Tensor, valid: Tensor, label: Tensor) -> Tensor:
    """Link every point to the nearest with another label [N] in its graph, if any: [2, M]."""
    outside = (label[nodes][:, :, None] != label[nodes][:, None]) & valid[:, None]
    distance = _distances(points, nodes).masked_fill(~outside, torch.inf)
    nearest = nodes.gather(1, distance.argmin(2))
    has_link = outside.any(2) & valid
    return torch.stack([nodes[has_link], nearest[has_link]])


def _distances(points: Points, nodes: Tensor) -> Tensor:
    """Return the distances [B, n, n], from coordinate differences."""
    coordinates = points.coordinates[nodes]
    apart = torch.cdist(coordinates, coordinates, compute_mode="donot_use_mm_for_euclid_dist")
    return points.from_squared(apart.square())
