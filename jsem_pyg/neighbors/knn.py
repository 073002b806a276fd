"""The nearest neighbours of every point, in one graph or in each graph of a batch."""

import logging

import numpy as np
import torch
from torch import Tensor

from .._checks import check_positive_int
from .all_pairs import all_pairs_neighbors
from .groups import Groups
from .points import Points, prepare_points
from .searcher import Searcher, SearchOptions

logger = logging.getLogger(__name__)


def knn_search(
    x: Tensor | np.ndarray,
    k: int,
    metric: str = "cosine",
    index: str = "auto",
    *,
    recall_target: float = 0.95,
    seed: int = 0,
    progress: bool = True,
) -> tuple[Tensor, Tensor]:
    """Find the k nearest neighbours of every point; a point is never its own neighbour.

    An exact search ranks points in float32, and again by coordinate differences where rounding
    could make a neighbour farther by more than 5e-5 of its distance. An approximate one ("ivf",
    "hnsw") may take a farther point for a neighbour, but always gives k of them with their true
    distances; its recall, the share of neighbours that are no farther than the true k-th, is
    measured on 1,000 points, and its effort doubled until the recall, less its standard error,
    is `recall_target`. The recall reached is logged (a warning where the target is missed).
    Duplicates of a point are ordinary neighbours at distance zero. A graph is discrete, so no
    gradient flows back to `x`.

    Points on a GPU are searched on the CPU, except by a build of faiss for GPUs.

    Args:
        x: [N, F] floating-point tensor, finite, on any device; or an array such as
            ``numpy.load(path, mmap_mode="r")``, which is not read as a whole, see
            :func:`~.build.knn_graph`.
        k: how many neighbours, 0 < k < N.
        metric: "cosine" for 1 - cos(x_i, x_j) in [0, 2], "l2" for ||x_i - x_j|| in the unit of `x`.
        index: "flat", the exact search; "ivf", an inverted file; "hnsw", a small-world graph (whose
            result depends on timing, unless Faiss has one thread); "auto" is exact up to 100,000
            points, and "ivf" above. Up to 128 points are always searched exactly.
        recall_target: in (0, 1], for approximate searches.
        seed: of what is random in approximate searches.
        progress: show a bar on long searches, where there is a terminal to show it in.

    Returns:
        The neighbours [N, k] (int64) and their distances [N, k], ascending in each row, on the
        device of `x`; float64 for float64 points, float32 for all others.

    Raises:
        TypeError: if `x` is not floating-point, `k` or `seed` not an integer, or `recall_target`
            not a number.
        ValueError: if `k`, the shape or the values of `x`, or one of the other arguments does not
            fit.

    Example:
        >>> x = torch.tensor([[0.0], [1.0], [3.0], [3.5]])
        >>> neighbor, distance = knn_search(x, k=1, metric="l2")
        >>> neighbor.flatten().tolist(), distance.flatten().tolist()
        ([1, 0, 3, 2], [1.0, 1.0, 0.5, 0.5])
    """
    check_positive_int("k", k)
    options = SearchOptions(index, recall_target, seed, progress)
    points = prepare_points(x, metric)
    _check_enough(k, points.num_points)
    neighbor, distance = Searcher(points, k, options).neighbors(k)
    return neighbor.to(points.device), distance.to(points.device)


def _check_enough(k: int, num_points: int) -> None:
    """Raise a ValueError unless each of the points has k others."""
    if k >= num_points:
        raise ValueError(
            f"Expected 'k' to be smaller than the number of points (got k={k} for {num_points} "
            "points). To fix this, lower 'k'."
        )


def warn_if_few(k: int, groups: Groups) -> None:
    """Log how many graphs have too few points for k neighbours; theirs are joined to all others."""
    few = groups.size[groups.size <= k]
    if few.numel():
        logger.warning(
            "k=%d neighbours were asked for, but %d of %d graphs have no more than %d points (the "
            "smallest has %d): their points are joined to all others. To avoid this, lower 'k'.",
            k,
            few.numel(),
            groups.size.numel(),
            k,
            int(few.min()),
        )


def neighbors_in_groups(
    points: Points, k: int, options: SearchOptions, groups: Groups
) -> tuple[Tensor, Tensor]:
    """The k nearest other points of every point in its own graph: [N, k], ascending.

    A row of a point that has fewer others goes on with the point itself, at the distance of its
    last neighbour (zero where it has none). There are no more columns than the largest graph has
    use for, but at least one.
    """
    most = int(groups.size.max()) - 1
    if groups.size.numel() == 1 and k <= most:
        return Searcher(points, k, options).neighbors(k)
    k = max(1, min(k, most))
    neighbor = torch.empty(points.num_points, k, dtype=torch.int64)
    distance = points.coordinates.new_empty(points.num_points, k)
    for graph in groups.large():
        nodes = groups.nodes(graph)
        others = min(k, nodes.numel() - 1)
        found, apart = Searcher(points.take(nodes), others, options).neighbors(others)
        neighbor[nodes, :others], distance[nodes, :others] = nodes[found], apart
    for nodes, valid in groups.small():
        nearest, apart = all_pairs_neighbors(points, nodes, valid, k)
        width = nearest.size(2)
        neighbor[nodes[valid], :width] = nearest[valid]
        distance[nodes[valid], :width] = apart[valid]
    return complete_rows(neighbor, distance, groups)


def complete_rows(neighbor: Tensor, distance: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
    """Fill the rows [N, k] of points that have fewer than k others, see above."""
    count = (groups.size - 1)[groups.label][:, None]
    column = torch.arange(neighbor.size(1))
    itself = torch.arange(neighbor.size(0))[:, None]
    last = torch.minimum(column, (count - 1).clamp(min=0))
    distance = distance.gather(1, last).masked_fill(count == 0, 0)
    return torch.where(column < count, neighbor, itself), distance
