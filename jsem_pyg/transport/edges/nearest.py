"""The nodes of another graph that look most alike, by features of both."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...neighbors.faiss_library import import_faiss
from ..factored.profiles import Comparable

Array = NDArray[Any]

_NEAREST = 30  # nodes that features suggest to each
_TABLE = 1 << 16  # and in all, at least
_EXACT = 20_000  # nodes up to which all pairs of features are compared
_PROBES = 24  # cells of an inverted file that are looked at
_TRAINING = 40  # points a cell
_TIE = 0.1  # what features count, in edges
_LEVELS = 512  # of likeness


def find_nearest(features: Comparable, seed: int) -> tuple[Array, Array]:
    """The nodes of the target that look most alike, and how much they count, in edges.

    Columns [N, C] int32 of the nearest features, 30 or 2^16 / N, or all K nodes, and likeness
    [N, C] float32, largest first: 0.1 for equal features, 0.05 at the median distance, 0 at twice
    that and beyond. It is rounded, and the first of equals comes first, so that rounding of
    features does not decide.
    """
    first, second = (each.float().numpy() for each in features)
    faiss = import_faiss()
    size, width = second.shape
    index = faiss.IndexFlatL2(width)
    if size > _EXACT:
        index = faiss.IndexIVFFlat(index, width, int(2 * size**0.5))
        index.nprobe, index.cp.seed, index.cp.niter = _PROBES, 1 + seed % (2**31 - 2), 6
        index.cp.max_points_per_centroid = _TRAINING
        index.train(second)
    index.add(second)
    distance, column = index.search(first, min(size, max(_NEAREST, _TABLE // len(first))))
    # An inverted file may find fewer: the nearest once more, which is worth nothing.
    distance = np.where(column < 0, np.inf, np.maximum(distance, 0))
    column = np.where(column < 0, column[:, :1], column)
    far = float(np.median(distance[np.isfinite(distance)])) or 1.0
    likeness = np.rint(np.clip(1 - distance / (2 * far), 0, 1) * _LEVELS) / _LEVELS * _TIE
    order = np.lexsort((column, -likeness))
    column, likeness = (np.take_along_axis(each, order, 1) for each in (column, likeness))
    return np.maximum(column, 0).astype(np.int32), likeness.astype(np.float32)
