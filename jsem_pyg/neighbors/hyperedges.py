"""Makes hyperedges from points."""

import torch
from torch import Tensor

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
        ValueError: if :func:`~jsem_pyg.neighbors.knn_search` refuses the points.

    Source: Feng et al., "Hypergraph neural networks", 2019, section 4.2.

    Example:
        >>> knn_hyperedges(torch.tensor([[0.0], [1.0], [3.0], [3.5]]), k=1, metric="l2")
        tensor([[0, 1, 1, 0, 2, 3, 3, 2],
                [0, 0, 1, 1, 2, 2, 3, 3]])
    """
    neighbor, _ = knn_search(x, k, metric)
    point = torch.arange(x.size(0), device=x.device)
    members = torch.cat([point[:, None], neighbor], dim=1)
    return torch.stack([members.flatten(), point.repeat_interleave(members.size(1))])
