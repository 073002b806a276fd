"""Scores of pairs on the CPU, compiled: one row after another, and only its best are kept.

The product of three sparse matrices has entries by the square of the degrees; a row of it fits an
array of K numbers for each thread.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..compiled import compiled
from ..threads import run_on_rows

Array = NDArray[Any]

_SERIAL = 1 << 14  # entries of the source below which a single thread is faster


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
    columns = np.full((source.shape[0], kept), -1, np.int32)
    values = np.full((source.shape[0], kept), -np.inf, np.float32)
    sides = source.indices, source.data, target.indptr, target.indices, target.data
    given = column, mass, candidate, bonus
    run_on_rows(_rows, source.indptr, *sides, *given, columns, values, threads_from=_SERIAL)
    return columns, values


@compiled(nogil=True)
def _rows(
    rowptr: Array,
    col: Array,
    weight: Array,
    target_rowptr: Array,
    target_col: Array,
    target_weight: Array,
    column: Array,
    mass: Array,
    candidate: Array,
    bonus: Array,
    columns: Array,
    values: Array,
    first: int,
    last: int,
) -> None:
    size = target_rowptr.size - 1
    score, seen = np.zeros(size, np.float32), np.full(size, -1, np.int32)
    found = np.empty(size, np.int32)
    for i in range(first, last):
        count = 0
        for slot in range(rowptr[i], rowptr[i + 1]):
            k = col[slot]
            for place in range(column.shape[1]):
                sent = weight[slot] * mass[k, place]
                if sent <= 0:
                    continue
                other = column[k, place]
                for side in range(target_rowptr[other], target_rowptr[other + 1]):
                    j = target_col[side]
                    if seen[j] != i:
                        seen[j], score[j], found[count] = i, 0, j
                        count += 1
                    score[j] += sent * target_weight[side]
        for place in range(candidate.shape[1]):
            j = candidate[i, place]
            if seen[j] != i:
                seen[j], score[j], found[count] = i, 0, j
                count += 1
            score[j] += bonus[i, place]
        _keep_largest(score, found[:count], columns[i], values[i])


@compiled(nogil=True)
def _keep_largest(score: Array, found: Array, columns: Array, values: Array) -> None:
    """The largest scores of the columns that were found, by insertion."""
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
