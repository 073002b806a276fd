"""The nodes of another graph that look most alike, by features of both."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...neighbors.faiss_library import import_faiss
from ..profiles import Comparable

Array = NDArray[Any]

NEAREST = 30  # nodes that features suggest to each
LEAST_NEAREST = 1 << 16  # and in all, at least
EXACT_NEAREST = 20_000  # nodes up to which all pairs of features are compared
CELLS_SEARCHED = 24  # of an inverted file
CELL_TRAINING = 40  # points a cell
LIKENESS = 0.1  # what features count, in edges
LIKENESS_LEVELS = 512


def find_nearest(features: Comparable, seed: int) -> tuple[Array, Array]:
    """Find the nodes of the target that look most alike, and how much they count, in edges.

    Columns [N, C] int32 of the nearest features, 30 or 2^16 / N, or all K nodes, and likeness
    [N, C] float32, largest first: 0.1 for equal features, 0.05 at the median distance, 0 at twice
    that and beyond. It is rounded, and the first of equals comes first, so that rounding of
    features does not decide.
    """
    first, second = (each.float().numpy() for each in features)
    faiss = import_faiss()
    size, width = second.shape
    index = faiss.IndexFlatL2(width)
    if size > EXACT_NEAREST:
        index = faiss.IndexIVFFlat(index, width, int(2 * size**0.5))
        index.nprobe, index.cp.seed, index.cp.niter = CELLS_SEARCHED, 1 + seed % (2**31 - 2), 6
        index.cp.max_points_per_centroid = CELL_TRAINING
        index.train(second)
    index.add(second)
    count = max(NEAREST, LEAST_NEAREST // len(first))
    distance, column = index.search(first, min(size, count))
    # An inverted file may find fewer: the nearest once more, which is worth nothing.
    distance = np.where(column < 0, np.inf, np.maximum(distance, 0))
    column = np.where(column < 0, column[:, :1], column)
    far = float(np.median(distance[np.isfinite(distance)])) or 1.0
    levels = LIKENESS_LEVELS
    likeness = np.rint(np.clip(1 - distance / (2 * far), 0, 1) * levels) / levels
    likeness *= LIKENESS
    order = np.lexsort((column, -likeness))
    column, likeness = (np.take_along_axis(each, order, 1) for each in (column, likeness))
    return np.maximum(column, 0).astype(np.int32), likeness.astype(np.float32)
