"""Rows of a pattern, shared among threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]

_PARTS = 8  # of the rows, for each thread: the next one takes the next part, so that all end alike


def run_on_rows(
    kernel: Callable[..., None], rowptr: Array, *arrays: Array | float, threads_from: int = 0
) -> None:
    """Run a kernel on parts of the rows that have about as many entries each.

    Args:
        kernel: called as kernel(rowptr, *arrays, first row, last row + 1).
        rowptr: [N + 1] where each row begins.
        arrays: what else the kernel takes.
        threads_from: the number of entries from which more than one thread is worth its start.
    """
    threads = torch.get_num_threads() if rowptr[-1] >= threads_from else 1
    parts = 1 if threads == 1 else threads * _PARTS
    bounds = np.searchsorted(rowptr, np.linspace(0, rowptr[-1], parts + 1)[1:-1])
    bounds = np.unique([0, *bounds, rowptr.size - 1])
    if threads == 1 or bounds.size <= 2:
        kernel(rowptr, *arrays, 0, rowptr.size - 1)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: kernel(rowptr, *arrays, *part), pairwise(bounds)))
