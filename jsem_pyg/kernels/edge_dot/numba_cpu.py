"""Compiled loops over edges that read each row in place and store no pairs of rows.

Rows come from all over the memory, so those of later edges are prefetched.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..compiled import compiled
from ..prefetch import prefetch
from ..threads import map_ranges

Array = NDArray[Any]

_AHEAD = 16  # edges
_CACHE_LINE = 64  # bytes
# Products below which one thread is faster than several.
_MUCH_WORK = 1 << 18


def dots(a: Tensor, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """See :func:`.reference.dots`. Threads share the edges."""
    arrays = _arrays(a, b, *_indices(i, j))
    out = np.empty(i.size(0), arrays[0].dtype)
    _share(lambda begin, end: _dots(*arrays, begin, end, out), i.size(0), i.size(0) * a.size(1))
    return torch.from_numpy(out)


def sums(g: Tensor, z: Tensor, i: Tensor, j: Tensor, num_rows: int) -> Tensor:
    """See :func:`.reference.sums`.

    Threads share the rows that edges lead to, and each looks at all edges for its own: so no two
    write to the same row, and the result does not depend on how many there are.
    """
    arrays = _arrays(g, z, *_indices(i, j))
    out = np.zeros((num_rows, z.size(1)), arrays[1].dtype)
    _share(lambda begin, end: _sums(*arrays, begin, end, out), num_rows, i.size(0) * z.size(1))
    return torch.from_numpy(out)


def _arrays(*tensors: Tensor) -> tuple[Array, ...]:
    return tuple(each.detach().contiguous().numpy() for each in tensors)


def _indices(i: Tensor, j: Tensor) -> tuple[Tensor, ...]:
    """Both of the same type."""
    dtype = torch.promote_types(i.dtype, j.dtype)
    return i.to(dtype), j.to(dtype)


def _share(work: Callable[[int, int], bool], size: int, num_products: int) -> None:
    """Call `work(begin, end)` for parts of `size`, one a thread; it returns whether rows exist."""
    threads = torch.get_num_threads() if num_products >= _MUCH_WORK else 1
    bounds = np.linspace(0, size, threads + 1).astype(np.int64).tolist()
    if not all(map_ranges(work, bounds, threads)):
        raise IndexError("Expected the ends of edges to be rows (got an index out of range).")


@compiled(nogil=True, fastmath={"reassoc", "contract"})
def _dots(a: Array, b: Array, i: Array, j: Array, begin: int, end: int, out: Array) -> bool:
    num_channels, line = a.shape[1], _CACHE_LINE // a.itemsize
    ahead_in_a, ahead_in_b = a.reshape(-1), b.reshape(-1)
    for e in range(begin, end):
        later = min(e + _AHEAD, end - 1)
        for c in range(0, num_channels, line):
            prefetch(ahead_in_a, np.int64(i[later]) * num_channels + c)
            prefetch(ahead_in_b, np.int64(j[later]) * num_channels + c)
        if not (0 <= i[e] < a.shape[0] and 0 <= j[e] < b.shape[0]):
            return False
        total = a.dtype.type(0)
        for c in range(num_channels):
            total += a[i[e], c] * b[j[e], c]
        out[e] = total
    return True


@compiled(nogil=True, fastmath={"contract"})
def _sums(g: Array, z: Array, i: Array, j: Array, begin: int, end: int, out: Array) -> bool:
    num_channels, line = z.shape[1], _CACHE_LINE // z.itemsize
    ahead_in_z, ahead_in_out = z.reshape(-1), out.reshape(-1)
    for e in range(i.size):
        later = min(e + _AHEAD, i.size - 1)
        if begin <= i[later] < end:
            for c in range(0, num_channels, line):
                prefetch(ahead_in_z, np.int64(j[later]) * num_channels + c)
                prefetch(ahead_in_out, np.int64(i[later]) * num_channels + c)
        if not (0 <= i[e] < out.shape[0] and 0 <= j[e] < z.shape[0]):
            return False
        if begin <= i[e] < end:
            for c in range(num_channels):
                out[i[e], c] += g[e] * z[j[e], c]
    return True
