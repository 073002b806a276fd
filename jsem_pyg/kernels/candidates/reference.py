"""Scores of pairs from the products of sparse matrices: the definition."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

Array = NDArray[Any]


def neighbor_scores(
    source: csr_array,
    target: csr_array,
    column: Array,
    mass: Array,
    candidate: Array,
    bonus: Array,
    kept: int,
) -> tuple[Array, Array]:
    """See the package."""
    shape = source.shape[0], target.shape[0]
    both = (source @ _table(column, mass * (mass > 0), shape) @ target).tocoo()
    own = _table(candidate, bonus, shape).tocoo()
    pairs = (np.concatenate([both.coords[side], own.coords[side]]) for side in (0, 1))
    scores = coo_array((np.concatenate([both.data, own.data]), tuple(pairs)), shape).tocsr()
    columns = np.full((shape[0], kept), -1, np.int32)
    values = np.full((shape[0], kept), -np.inf, np.float32)
    for row in range(shape[0]):
        part = slice(scores.indptr[row], scores.indptr[row + 1])
        best = np.argsort(-scores.data[part], kind="stable")[:kept]
        columns[row, : best.size] = scores.indices[part][best]
        values[row, : best.size] = scores.data[part][best]
    return columns, values


def _table(column: Array, value: Array, shape: tuple[int, int]) -> csr_array:
    """A sparse matrix with as many entries in every row; zeros are kept as entries."""
    start = np.arange(shape[0] + 1) * column.shape[1]
    return csr_array((value.reshape(-1), column.reshape(-1), start), shape)
