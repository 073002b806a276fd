"""Scores of pairs on the CPU, compiled: one row after another, and only its best are kept.

The product of three sparse matrices has entries by the square of the degrees; a row of it fits an
array of K numbers for each thread. Where its rows are rather full, M B comes first as a dense
matrix, whose rows are added as a whole.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..compiled import compiled
from ..threads import run_on_rows

Array = NDArray[Any]

_MOST_MOVED = 1 << 24  # entries of M B as a dense matrix
_ADDED, _READ = 32, 6  # entries of whole rows, in the time in which a single one is added
_HALVINGS = 12
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
    """Find the best pairs; see the package."""
    columns = np.full((source.shape[0], kept), -1, np.int32)
    values = np.full((source.shape[0], kept), -np.inf, np.float32)
    edges = source.indices, source.data
    moved = target.indptr, target.indices, target.data, column, mass
    others = candidate, bonus, columns, values
    size = target.shape[0]
    one_by_one = source.nnz * column.shape[1] * target.nnz / max(1, size)
    whole_rows = size * (source.nnz / _ADDED + source.shape[0] / _READ)
    if column.shape[0] * size <= _MOST_MOVED and one_by_one > whole_rows:
        dense = _moved(*moved)
        run_on_rows(_full_rows, source.indptr, *edges, dense, *others, threads_from=_SERIAL)
    else:
        run_on_rows(_rows, source.indptr, *edges, *moved, *others, threads_from=_SERIAL)
    return columns, values


def top_products(
    left: csr_array, right: csr_array, offset: Array, kept: int
) -> tuple[Array, Array]:
    """Find the largest entries of a product's rows; see the package."""
    columns = np.full((left.shape[0], kept), -1, np.int32)
    values = np.full((left.shape[0], kept), -np.inf, np.float32)
    factors = left.indices, left.data, right.indptr, right.indices, right.data
    run_on_rows(_products, left.indptr, *factors, offset, columns, values, threads_from=_SERIAL)
    return columns, values


@compiled(nogil=True)
def _moved(
    target_rowptr: Array, target_col: Array, target_weight: Array, column: Array, mass: Array
) -> Array:
    """Compute M B: [N, K] float32."""
    moved = np.zeros((column.shape[0], target_rowptr.size - 1), np.float32)
    for k in range(column.shape[0]):
        for place in range(column.shape[1]):
            if mass[k, place] > 0:
                other = column[k, place]
                for side in range(target_rowptr[other], target_rowptr[other + 1]):
                    moved[k, target_col[side]] += mass[k, place] * target_weight[side]
    return moved


@compiled(nogil=True)
def _full_rows(
    rowptr: Array,
    col: Array,
    weight: Array,
    moved: Array,
    candidate: Array,
    bonus: Array,
    columns: Array,
    values: Array,
    first: int,
    last: int,
) -> None:
    size = moved.shape[1]
    score, seen = np.empty(size, np.float32), np.full(size, -1, np.int32)
    found = np.empty(size, np.int32)
    for i in range(first, last):
        score[:] = 0
        for slot in range(rowptr[i], rowptr[i + 1]):
            sent, row = weight[slot], moved[col[slot]]
            for j in range(size):
                score[j] += sent * row[j]
        for place in range(candidate.shape[1]):
            seen[candidate[i, place]] = i
            score[candidate[i, place]] += bonus[i, place]
        least, count = _least_kept(score, values.shape[1]), 0
        if least > 0:
            for j in range(size):
                found[count] = j
                count += score[j] >= least
        else:
            for j in range(size):
                if score[j] > 0 or seen[j] == i:
                    found[count] = j
                    count += 1
        _keep_largest(score, found[:count], columns[i], values[i])


@compiled(nogil=True, fastmath=True)
def _least_kept(score: Array, kept: int) -> Any:
    """Find a bound that the `kept` largest scores pass, and few others; zero if too few do."""
    least, most = np.float32(0), np.float32(0)
    for j in range(score.size):
        most = score[j] if score[j] > most else most
    for _ in range(_HALVINGS):
        middle, count = (least + most) * np.float32(0.5), np.float32(0)
        for j in range(score.size):
            if score[j] >= middle:
                count += np.float32(1)
        if count < kept:
            most = middle
        else:
            least = middle
            if count < kept + 8:
                break
    return least


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
def _products(
    rowptr: Array,
    col: Array,
    factor: Array,
    right_rowptr: Array,
    right_col: Array,
    right_factor: Array,
    offset: Array,
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
