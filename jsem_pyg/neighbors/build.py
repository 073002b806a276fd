"""Builds the weighted, undirected neighbour graph of points."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .._checks import check_bool, check_choice, check_labels, check_positive_int
from .affinity import (
    KERNELS,
    SYMMETRIZATIONS,
    affinity,
    both_directions,
    common_width,
    node_width,
    undirected_edges,
)
from .connect import component_labels, shortest_links
from .knn import warn_if_few
from .points import METRICS, Points, prepare_points
from .searcher import Searcher, SearchOptions


@dataclass(frozen=True)
class GraphOptions:
    """The options of :func:`knn_graph`, except those of the search."""

    k: int
    metric: str
    kernel: str | None
    symmetrize: str
    connect: bool

    def __post_init__(self) -> None:
        check_positive_int("k", self.k)
        check_choice("metric", self.metric, METRICS)
        check_choice("kernel", self.kernel, tuple(KERNELS))
        check_choice("symmetrize", self.symmetrize, tuple(SYMMETRIZATIONS))
        check_bool("connect", self.connect)
        if self.kernel == "cosine" and self.metric != "cosine":
            raise ValueError(
                "Expected metric='cosine' for kernel='cosine', which is (1 + cos) / 2 (got "
                f"metric={self.metric!r}). To fix this, use kernel='gaussian' or 'self_tuning'."
            )


def knn_graph(
    x: Tensor | np.ndarray,
    k: int = 15,
    metric: str = "cosine",
    index: str = "auto",
    kernel: str | None = "gaussian",
    symmetrize: str = "max",
    connect: bool = True,
    batch: Tensor | None = None,
    *,
    recall_target: float = 0.95,
    seed: int = 0,
    progress: bool = True,
) -> tuple[Tensor, Tensor]:
    """Build the weighted k-nearest-neighbour graph of points, or of each graph of a batch.

    Edges have both directions, are sorted by row and column, and have the same weight in both.
    Every node has at least k neighbours unless ``symmetrize="mutual"``; in a graph of no more
    than k points, all are joined, with a warning in the log. A batch gives what its graphs
    give one by one. A graph is discrete, so no gradient flows back to `x`.

    An array of NumPy's, such as ``numpy.load(path, mmap_mode="r")``, stays where it is: its points
    are looked at in blocks, and read again when they are compared. Besides the k neighbours of
    every point, memory holds what the index needs: nothing for "flat", which compares all blocks
    with all others (exact, and quadratic in time); a byte a number for "ivf", whose candidates are
    then ranked by the numbers themselves; four bytes a number, and 256 a point, for "hnsw".

    Args:
        x: [N, F] floating-point tensor, finite, on any device, or an array of NumPy's.
        k: neighbours of each point, or all others if there are fewer.
        metric: "cosine" (1 - cos) or "l2" (Euclidean).
        index: "auto", "tree", "flat", "ivf" or "hnsw", see :func:`~.knn.knn_search`.
        kernel: how a distance d becomes a weight in [1e-6, 1]: "gaussian", exp(-d^2 / 2 s^2) with
            the lower median distance to the k-th neighbour as the width s; "self_tuning",
            exp(-d^2 / s_i s_j) with the distances to the 7th neighbours; "cosine", (1 + cos) / 2;
            None, ones. Distances of zero, to copies, do not count for a width; where every point
            has k copies, it is the lower median length of the links between groups of copies.
        symmetrize: "max" (union, larger weight), "mean" ((W + W^T) / 2) or "mutual" (edges found
            from both ends only).
        connect: join the connected components by their shortest links, one fewer than there are
            components. A link gets the kernel's weight for its length. With Q points outside the
            largest component and Q N F > 2.5e11 (F >= 64) a link may be longer than the shortest.
        batch: [N] the graph of each point, in any order; one graph if omitted.
        recall_target: in (0, 1], for approximate searches.
        seed: of what is random in approximate searches.
        progress: show a bar on long searches, if there is a terminal to show it in.

    Returns:
        `edge_index` [2, E] (int64) and `edge_weight` [E] on the device of `x`; weights are float64
        for float64 points, float32 for all others.

    Example:
        >>> x = torch.tensor([[0.0], [1.0], [3.0], [3.5]])
        >>> edge_index, edge_weight = knn_graph(x, k=1, metric="l2", kernel=None)
        >>> edge_index
        tensor([[0, 1, 1, 2, 2, 3],
                [1, 0, 2, 1, 3, 2]])
    """
    options = GraphOptions(k, metric, kernel, symmetrize, connect)
    search = SearchOptions(index, recall_target, seed, progress)
    points = prepare_points(x, metric)
    size = points.num_points
    if batch is not None:
        check_labels("batch", batch, size)
    if size == 0:
        edge_weight = points.coordinates.new_empty(0).to(points.device)
        return torch.empty(2, 0, dtype=torch.int64, device=points.device), edge_weight
    graphs = [torch.arange(size)] if batch is None else _graphs(batch)
    warn_if_few(k, [len(nodes) for nodes in graphs])
    pairs, weights = [], []
    for nodes in graphs:
        part = points if batch is None else points.take(nodes)
        neighbor, distance = Searcher(part, k, search).neighbors(k)
        pair, weight, _ = weighted_pairs(part, neighbor, distance, options)
        pairs.append(nodes[pair])
        weights.append(weight)
    edges = both_directions(torch.cat(pairs, dim=1), torch.cat(weights), size)
    return edges[0].to(points.device), edges[1].to(points.device)


def _graphs(batch: Tensor) -> list[Tensor]:
    """List the points of each graph, ascending, of a PyG `batch` vector [N]."""
    _, size = batch.cpu().unique(return_counts=True)
    return list(batch.cpu().argsort(stable=True).split(size.tolist()))


def weighted_pairs(
    points: Points, neighbor: Tensor, distance: Tensor, options: GraphOptions
) -> tuple[Tensor, Tensor, Tensor]:
    """Turn neighbours and distances [N, k] into undirected edges [2, M] and weights [M].

    Returns also the widths [N] of the kernel.
    """
    num_nodes, k = neighbor.shape
    width = node_width(distance, options.kernel)
    source, target = torch.arange(num_nodes).repeat_interleave(k), neighbor.flatten()
    weight = affinity(distance.flatten(), source, target, width, options.kernel)
    pair, weight = undirected_edges(source, target, weight, num_nodes, options.symmetrize)
    only_copies = bool(width.isinf().any())  # among which all edges weigh one, of any width
    if options.connect or only_copies:
        link, length = shortest_links(points, component_labels(pair, num_nodes))
        if only_copies:
            width = common_width(length.unsqueeze(1)).expand(num_nodes)
    if options.connect:
        link_weight = affinity(length, link[0], link[1], width, options.kernel)
        pair, weight = torch.cat([pair, link], dim=1), torch.cat([weight, link_weight])
    return pair, weight, width
