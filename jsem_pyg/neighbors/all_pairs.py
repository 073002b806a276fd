"""Small graphs by all their pairs of points, many graphs at once."""

import torch
from torch import Tensor

from .points import Points


def all_pairs_neighbors(
    points: Points, nodes: Tensor, valid: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """The k nearest other points of every point in its graph: neighbours and distances [B, n, k].

    Of the points [B, n] of B graphs, ascending in each, where they are valid [B, n]. Ties go to the
    lower index. Distances are infinite where a graph has fewer other points.
    """
    distance = _distances(points, nodes)
    apart = ~torch.eye(nodes.size(1), dtype=torch.bool)
    distance = distance.masked_fill(~(valid[:, None] & apart), torch.inf)
    distance, order = distance.sort(dim=2, stable=True)
    neighbor = nodes[:, None].expand_as(order).gather(2, order[:, :, :k])
    return neighbor, distance[:, :, :k]


def all_pairs_links(points: Points, nodes: Tensor, valid: Tensor, label: Tensor) -> Tensor:
    """Links [2, M] from every point to the nearest with another label [N] in its graph, if any."""
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
