"""Finds the nearest neighbours of every point."""

import logging

import numpy as np
from torch import Tensor

from .._checks import check_positive_int
from .points import prepare_points
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

    Points are compared in float32, from their mean: points nearer to each other than that resolves
    (3e-4 of the distance from the mean, or 1e-7 by a tree) are ties, in any order. Distances are
    true: they come from coordinate differences in the type of `x`. An approximate search ("ivf",
    "hnsw") may take a farther point for a neighbour. Its recall, the share of neighbours that are
    no farther than the true k-th, is measured on 1,000 points, and its budget doubled until the
    recall, less its standard error, is `recall_target`. The final recall is logged (a warning if
    the target is missed). Duplicates of a point are ordinary neighbours at distance zero. A graph
    is discrete, so no gradient flows back to `x`.

    Points on a GPU are searched on the CPU.

    Args:
        x: [N, F] floating-point tensor, finite, on any device; or an array such as
            ``numpy.load(path, mmap_mode="r")``: it is not read as a whole, see
            :func:`~.build.knn_graph`.
        k: how many neighbours, 0 < k < N.
        metric: "cosine" for 1 - cos(x_i, x_j) in [0, 2], "l2" for ||x_i - x_j|| in the unit of `x`.
        index: "tree", a k-d tree, exact, for up to 6 dimensions; "flat", the exact comparison of
            all points; "ivf", an inverted file; "hnsw", a small-world graph (whose result depends
            on timing, unless Faiss has one thread); "auto" is "tree" from 2,048 points on in up to
            6 dimensions, else "flat" up to 100,000 points, and "ivf" above. Up to 128 points are
            always compared pair by pair.
        recall_target: in (0, 1], for approximate searches.
        seed: of what is random in approximate searches.
        progress: show a bar on long searches, if there is a terminal to show it in.

    Returns:
        The neighbours [N, k] (int64) and their distances [N, k], ascending in each row, on the
        device of `x`; float64 for float64 points, float32 for all others.

    Example:
        >>> import torch
        >>> x = torch.tensor([[0.0], [1.0], [3.0], [3.5]])
        >>> neighbor, distance = knn_search(x, k=1, metric="l2")
        >>> neighbor.flatten().tolist(), distance.flatten().tolist()
        ([1, 0, 3, 2], [1.0, 1.0, 0.5, 0.5])
    """
    check_positive_int("k", k)
    options = SearchOptions(index, recall_target, seed, progress)
    points = prepare_points(x, metric)
    if k >= points.num_points:
        raise ValueError(
            f"Expected 'k' to be smaller than the number of points (got k={k} for "
            f"{points.num_points} points). To fix this, lower 'k'."
        )
    neighbor, distance = Searcher(points, k, options).neighbors(k)
    return neighbor.to(points.device), distance.to(points.device)


def warn_if_few(k: int, sizes: list[int]) -> None:
    """Log how many graphs have too few points for k neighbours: all their points are joined."""
    few = [size for size in sizes if size <= k]
    if few:
        logger.warning(
            "k=%d neighbours were asked for, but %d of %d graphs have no more than %d points (the "
            "smallest has %d): their points are joined to all others. To avoid this, lower 'k'.",
            k,
            len(few),
            len(sizes),
            k,
            min(few),
        )
