"""Candidate partners: for each node the nodes of the other graph whose profiles are nearest."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...graph.faiss_search import import_faiss
from ..factored.profiles import comparable
from .profiles import local_profiles

Array = NDArray[Any]

_RIDGE = 0.03  # of :func:`.comparable`: smaller components count more than among few nodes
_EXACT = 20_000  # nodes up to which all pairs of profiles are compared
_PROBES = 24  # cells of an inverted file that are looked at
_TRAINING = 40  # points a cell


def find_candidates(
    source: csr_array, target: csr_array, count: int, seed: int
) -> tuple[Array, Array]:
    """The nodes of the target that look most alike, nearest first.

    Args:
        source: [N, N] weights.
        target: [K, K] weights.
        count: how many for each node, at most K.
        seed: of an approximate index.

    Returns:
        Columns [N, count] int32, and squared distances [N, count] float32.
    """
    sides = (torch.from_numpy(local_profiles(each)) for each in (source, target))
    first, second = (each.float().numpy() for each in comparable(*sides, ridge=_RIDGE))
    faiss = import_faiss()
    size, width = second.shape
    index = faiss.IndexFlatL2(width)
    if size > _EXACT:
        index = faiss.IndexIVFFlat(index, width, int(2 * size**0.5))
        index.nprobe, index.cp.seed, index.cp.niter = _PROBES, 1 + seed % (2**31 - 2), 6
        index.cp.max_points_per_centroid = _TRAINING
        index.train(second)
    index.add(second)
    distance, column = index.search(first, count)
    # An inverted file may find fewer: the nearest once more, which is worth nothing.
    lost = column < 0
    column, distance = np.where(lost, column[:, :1], column), np.where(lost, np.inf, distance)
    return np.maximum(column, 0).astype(np.int32), np.maximum(distance, 0)
