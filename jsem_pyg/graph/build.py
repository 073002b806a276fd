"""From points to a weighted, undirected neighbour graph."""

import logging

import torch
from torch import Tensor

from .._checks import check_choice, check_positive_int
from .affinity import (
    KERNELS,
    SYMMETRIZATIONS,
    affinity,
    both_directions,
    node_width,
    undirected_edges,
)
from .connect import component_labels, shortest_links
from .knn import check_index, nearest_neighbors
from .points import METRICS, prepare_points

logger = logging.getLogger(__name__)


def knn_graph(
    x: Tensor,
    k: int = 15,
    metric: str = "cosine",
    index: str = "auto",
    kernel: str | None = "gaussian",
    symmetrize: str = "max",
    connect: bool = True,
) -> tuple[Tensor, Tensor]:
    """Build the weighted k-nearest-neighbour graph of points.

    Edges have both directions, are sorted by row and column, and their weights are the same number
    in both. Every node has at least k neighbours unless ``symmetrize="mutual"``. A graph is
    discrete, so no gradient flows back to `x`.

    Args:
        x: [N, F] floating-point tensor, finite, on any device.
        k: neighbours of each point, 0 < k < N.
        metric: "cosine" (1 - cos) or "l2" (Euclidean).
        index: "auto" or "flat", the exact search; "hnsw" and "ivf" are not built yet.
        kernel: how a distance becomes a weight in [1e-6, 1], see :func:`~.affinity.affinity`:
            "gaussian" with the median distance to the k-th neighbour as its width, "self_tuning"
            with local widths, "cosine" for (1 + cos) / 2, None for ones.
        symmetrize: "max" (union, larger weight), "mean" ((W + W^T) / 2) or "mutual" (edges found
            from both ends only).
        connect: join the connected components by their shortest links, one fewer than there are
            components. A link gets the kernel's weight for its length.

    Returns:
        `edge_index` [2, E] (int64) and `edge_weight` [E] on the device of `x`; weights are float64
        for float64 points, float32 for all others.

    Raises:
        TypeError: if `x` is not floating-point, or `k` not an integer.
        ValueError: if `k`, the shape or the values of `x`, or one of the names does not fit.
        ImportError: if faiss is missing.

    Example:
        >>> x = torch.tensor([[0.0], [1.0], [3.0], [3.5]])
        >>> edge_index, edge_weight = knn_graph(x, k=1, metric="l2", kernel=None)
        >>> edge_index
        tensor([[0, 1, 1, 2, 2, 3],
                [1, 0, 2, 1, 3, 2]])
    """
    check_options(k, metric, index, kernel, symmetrize)
    points = prepare_points(x, metric)
    neighbor, distance = nearest_neighbors(points, k)
    width = node_width(distance, kernel)
    source = torch.arange(x.size(0)).repeat_interleave(k)
    weight = affinity(distance.flatten(), source, neighbor.flatten(), width, kernel)
    pair, weight = undirected_edges(neighbor, weight.view_as(distance), symmetrize)
    if connect:
        link, length = shortest_links(points, component_labels(pair, x.size(0)))
        logger.debug("Joined %d components by their shortest links.", length.numel() + 1)
        link_weight = affinity(length, link[0], link[1], width, kernel)
        pair, weight = torch.cat([pair, link], dim=1), torch.cat([weight, link_weight])
    edge_index, edge_weight = both_directions(pair, weight, x.size(0))
    return edge_index.to(x.device), edge_weight.to(x.device)


def check_options(k: int, metric: str, index: str, kernel: str | None, symmetrize: str) -> None:
    """Raise a TypeError or ValueError unless these options of :func:`knn_graph` fit together."""
    check_positive_int("k", k)
    check_choice("metric", metric, METRICS)
    check_index(index)
    check_choice("kernel", kernel, KERNELS)
    check_choice("symmetrize", symmetrize, SYMMETRIZATIONS)
    if kernel == "cosine" and metric != "cosine":
        raise ValueError(
            "Expected metric='cosine' for kernel='cosine', which is (1 + cos) / 2 "
            f"(got metric={metric!r}). To fix this, use kernel='gaussian' or 'self_tuning'."
        )
