"""The largest entries of a product of sparse matrices, row by row: the product is not stored."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..compiled import compiled
from ..threads import run_on_rows

Array = NDArray[Any]

_SERIAL = 1 << 14  # entries of the left matrix below which a single thread is faster


def top_products(
    left: csr_array, right: csr_array, offset: Array, candidate: Array, bonus: Array, kept: int
) -> tuple[Array, Array]:
    """Find the `kept` largest entries of every row of left @ right + offset, and some bonus.

    An entry counts if the product has it, or if it is a candidate.

    Args:
        left: [N, P] float32.
        right: [P, K] float32.
        offset: [K] float32, -inf for columns that do not count.
        candidate: [N, c] int32, distinct columns in a row.
        bonus: [N, c] float32, what is added for the candidates.
        kept: how many.

    Returns:
        Columns [N, kept] int32, -1 if a row has fewer entries, and values [N, kept] float32, the
        largest first, -inf there. The order of equal values is not fixed.
    """
    columns = np.full((left.shape[0], kept), -1, np.int32)
    values = np.full((left.shape[0], kept), -np.inf, np.float32)
    factors = left.indices, left.data, right.indptr, right.indices, right.data
    others = offset, candidate, bonus, columns, values
    run_on_rows(_products, left.indptr, *factors, *others, threads_from=_SERIAL)
    return columns, values


def largest(score: Array, kept: int) -> tuple[Array, Array]:
    """Find the `kept` largest entries of every row of a matrix [N, K] float32, as above."""
    columns = np.full((score.shape[0], kept), -1, np.int32)
    values = np.full((score.shape[0], kept), -np.inf, np.float32)
    _largest(score, columns, values)
    return columns, values


@compiled(nogil=True)
def _largest(score: Array, columns: Array, values: Array) -> None:
    found = np.arange(score.shape[1])
    for i in range(score.shape[0]):
        _keep_largest(score[i], found, columns[i], values[i])


@compiled(nogil=True)
def _products(
    rowptr: Array,
    col: Array,
    factor: Array,
    right_rowptr: Array,
    right_col: Array,
    right_factor: Array,
    offset: Array,
    candidate: Array,
    bonus: Array,
    columns: Array,
    values: Array,
    first: int,
    last: int,
) -> None:
    size = offset.size
    score, seen = np.zeros(size, np.float32), np.full(size, -1, np.int32)
    found = np.empty(size, np.int32)
    for i in range(first, last):
        count = 0
        for slot in range(rowptr[i], rowptr[i + 1]):
            k = col[slot]
            for side in range(right_rowptr[k], right_rowptr[k + 1]):
                j = right_col[side]
                if seen[j] != i:
                    seen[j], score[j], found[count] = i, offset[j], j
                    count += 1
                score[j] += factor[slot] * right_factor[side]
        for place in range(candidate.shape[1]):
            j = candidate[i, place]
            if seen[j] != i:
                seen[j], score[j], found[count] = i, offset[j], j
                count += 1
            score[j] += bonus[i, place]
        _keep_largest(score, found[:count], columns[i], values[i])


@compiled(nogil=True)
def _keep_largest(score: Array, found: Array, columns: Array, values: Array) -> None:
    """Keep the largest scores of the columns that were found, by insertion."""
    filled, last = 0, values.size - 1
    for j in found:
        if score[j] <= values[last]:
            continue
        place = min(filled, last)
        filled += 1
        while place > 0 and values[place - 1] < score[j]:
            values[place], columns[place] = values[place - 1], columns[place - 1]
            place -= 1
        values[place], columns[place] = score[j], j
