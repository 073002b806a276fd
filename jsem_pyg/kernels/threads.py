"""Loops shared among threads, by ranges of rows or edges."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]
T = TypeVar("T")

_PARTS = 8  # of the rows, for each thread: the next one takes the next part, so that all end alike


def map_ranges(work: Callable[[int, int], T], bounds: Sequence[int], threads: int) -> list[T]:
    """Call `work(bounds[i], bounds[i + 1])` for all i, in order; once for a single thread."""
    if threads == 1 or len(bounds) <= 2:
        return [work(bounds[0], bounds[-1])]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, bounds[:-1], bounds[1:]))


def run_on_rows(
    kernel: Callable[..., None], rowptr: Array, *arrays: Array | float, threads_from: int = 0
) -> None:
    """Call kernel(rowptr, *arrays, first, last + 1) for ranges of rows of as many entries.

    On more than one thread from the number `threads_from` of entries on.
    """
    threads = torch.get_num_threads() if rowptr[-1] >= threads_from else 1
    cuts = np.searchsorted(rowptr, np.linspace(0, rowptr[-1], threads * _PARTS + 1)[1:-1])
    bounds = (
        np.unique([0, *cuts, rowptr.size - 1]).tolist() if threads > 1 else [0, rowptr.size - 1]
    )
    map_ranges(lambda first, last: kernel(rowptr, *arrays, first, last), bounds, threads)
