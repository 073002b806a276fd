"""Nearest neighbours by an exact Faiss search. The only file that imports faiss."""

from typing import Any

import torch
from torch import Tensor

from .._checks import check_choice, check_positive_int
from .points import Points, prepare_points

INDEXES = ("auto", "flat", "hnsw", "ivf")

# Faiss ranks by float32 distances. That many more candidates are ranked again by their own
# distances, so that rounding at the k-th place does not choose.
_EXTRA_CANDIDATES = 8


def knn_search(
    x: Tensor, k: int, metric: str = "cosine", index: str = "flat"
) -> tuple[Tensor, Tensor]:
    """Find the k nearest neighbours of every point; a point is never its own neighbour.

    The search is exact up to float32 rounding of the ranking. Duplicates of a point are ordinary
    neighbours at distance zero. A graph is discrete, so no gradient flows back to `x`.

    Args:
        x: [N, F] floating-point tensor, finite, on any device.
        k: how many neighbours, 0 < k < N.
        metric: "cosine" for 1 - cos(x_i, x_j) in [0, 2], "l2" for ||x_i - x_j|| in the unit of `x`.
        index: "flat" or "auto", the exact search; "hnsw" and "ivf" are not built yet.

    Returns:
        The neighbours [N, k] (int64) and their distances [N, k], ascending in each row, on the
        device of `x`; float64 for float64 points, float32 for all others.

    Raises:
        TypeError: if `x` is not floating-point, or `k` not an integer.
        ValueError: if `k`, the shape or the values of `x`, or one of the names does not fit.
        ImportError: if faiss is missing.

    Source: Johnson, Douze and Jegou, "Billion-scale similarity search with GPUs", 2017,
    section 3 (the exact search).

    Example:
        >>> x = torch.tensor([[0.0], [1.0], [3.0], [3.5]])
        >>> neighbor, distance = knn_search(x, k=1, metric="l2")
        >>> neighbor.flatten().tolist(), distance.flatten().tolist()
        ([1, 0, 3, 2], [1.0, 1.0, 0.5, 0.5])
    """
    check_positive_int("k", k)
    check_index(index)
    neighbor, distance = nearest_neighbors(prepare_points(x, metric), k)
    return neighbor.to(x.device), distance.to(x.device)


def check_index(index: str) -> None:
    """Raise a ValueError unless `index` names a search that this version has."""
    check_choice("index", index, INDEXES)
    if index in ("hnsw", "ivf"):
        raise ValueError(
            "Expected 'index' to be 'auto' or 'flat': this version searches exactly only "
            f"(got {index!r})."
        )


def nearest_neighbors(points: Points, k: int) -> tuple[Tensor, Tensor]:
    """The k nearest other points of every point: indices and distances [N, k], ascending."""
    num_points = points.coordinates.size(0)
    if k >= num_points:
        raise ValueError(
            f"Expected 'k' to be smaller than the number of points (got k={k} for {num_points} "
            "points). To fix this, lower 'k'."
        )
    everyone = torch.arange(num_points)
    # With more duplicates than candidates, a point need not be among its own candidates.
    candidate = search(points, everyone, everyone, min(num_points, k + 1 + _EXTRA_CANDIDATES))
    candidate = candidate.sort(dim=1).values  # ties go to the lower index
    query = everyone.repeat_interleave(candidate.size(1))
    distance = points.distance(query, candidate.flatten()).view_as(candidate)
    distance = distance.masked_fill(candidate == everyone[:, None], torch.inf)
    distance, order = distance.sort(dim=1, stable=True)
    return candidate.gather(1, order)[:, :k].contiguous(), distance[:, :k].contiguous()


def search(points: Points, query: Tensor, base: Tensor, k: int) -> Tensor:
    """For each point of `query` [Q], the k nearest of the points `base` [B]: indices [Q, k]."""
    faiss = _import_faiss()
    flat = faiss.IndexFlatL2(points.search.size(1))
    flat.add(points.search[base].numpy())
    _, found = flat.search(points.search[query].numpy(), k)
    return base[torch.from_numpy(found)]


def _import_faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise ImportError(
            "The neighbour search needs faiss. To fix this, run `pip install faiss-cpu`."
        ) from error
    return faiss
