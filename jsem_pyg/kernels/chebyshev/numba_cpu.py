"""Column tiles on the CPU: a few columns go through all terms before the next ones begin.

The operator acts on every column by itself, so a tile of two cache lines' width (32 float32 or 16
float64 columns of all nodes) is carried through the whole recurrence, forward or backward, before
the next one begins. On a small graph it stays in the caches, and each of `torch.get_num_threads()`
threads takes every so-many-th tile. On a large one its terms come from memory, which is what one
then waits for, so as little as possible is moved, and asked for early: all threads work on the same
tile, taking blocks of rows in turn; a row's neighbours are asked for hundreds of cache lines before
their turn; and the result takes three terms at a time.

The adjoint is that of :mod:`.adjoint`: the last two terms are stored, and the recurrence runs
backwards.

Extra memory beside the result and the gradient of x, whatever the degree: two copies of x, a number
for each edge, and a handful of tiles; on a small graph these two for each thread. In a backward
pass the two copies are freed tile by tile, unless the graph is retained.
"""

import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..csr import CSR
from ..ordering import Ordering, choose_for_series
from .passes import backward, forward, num_lanes, pack, renumber, scratch, unpack
from .series import Gradients, SeriesOperator
from .simd import CACHE_LINE

_log = logging.getLogger(__name__)

Array = NDArray[Any]
# A part of the work on a tile, on a thread's share of its rows: (its index, number of threads)
Stage = Callable[[tuple[int, int]], object]

# Larger tiles than this are shared by the threads: those of all would not fit the caches, and would
# be what takes most memory. (16,000 nodes: sharing takes the same time at 11,000, a fifth less at
# 20,000.)
_SMALL_TILE = 2 << 20  # bytes

# Less is over before a second thread has begun: about a millisecond of multiplications.
_MUCH_WORK = 1 << 22

# Cache lines that are prefetched and not yet used: half of the L1 cache. With half
# as many, forward takes a fifth longer.
_LINES_AHEAD = 384


class OrderedPattern(NamedTuple):
    """A CSR pattern with its nodes renumbered, so that neighbours lie close."""

    rowptr: Array  # [N + 1]
    col: Array  # [nnz + MOST_AHEAD] int32, zeros at the end
    middle: Array  # [N] where, in each row, the columns are no longer below the diagonal
    node: Array  # [N] the node that each row stands for
    place: Array  # [N] the row of each node
    slot: Array  # [nnz] the slot that each entry comes from, or that of its reverse


class _Call(NamedTuple):
    """What all tiles of a call share."""

    dtype: np.dtype[Any]
    lanes: tuple[int, ...]  # as many zeros as a tile has columns
    num_tiles: int
    tile_size: int  # numbers in a tile
    pattern: OrderedPattern
    matrix: tuple[Array, ...]  # rowptr, col, middle and values of the pattern
    coefficients: Array  # [K + 1, S, channels]
    lines_ahead: int
    num_threads: int
    together: bool  # whether all threads work on the same tile


class SparseOperator(SeriesOperator):
    """A sparse symmetric S, of a pattern of N rows and its values [nnz]; both are below 2^31."""

    def __init__(self, csr: CSR, value: Tensor) -> None:
        if csr.num_slots >= 2**31 or csr.num_rows >= 2**31:
            raise ValueError(
                "Expected fewer than 2^31 nodes and edges for backend='numba' (got "
                f"{csr.num_rows} and {csr.num_slots})."
            )
        self.num_nodes = csr.num_rows
        self.csr, self.values = csr, (value,)

    def evaluate(self, x: Tensor, coefficients: Tensor, kept: Sequence[Tensor]) -> Tensor:
        """Sum the series; see :class:`.SeriesOperator`. The last two terms are kept in tiles."""
        call = self._prepare(x.size(1), coefficients, trains=bool(kept))
        scales, source = coefficients.size(1), x.detach().contiguous().numpy()
        out = np.empty((scales, *x.shape), call.dtype)
        last, own = [each.numpy() for each in kept], 0 if kept else 2

        def allocate() -> Array:
            return _tiles(call, own + scales)

        def stages(tile: int, thread: int, memory: Array) -> Iterator[Stage]:
            terms, result = tuple(last[tile] if last else memory[:own]), memory[own:]
            first, weight = tile * len(call.lanes), _weight(call, tile)
            yield partial(pack, terms[0], source, call.pattern.node, first, call.lanes)
            for steps in _steps(call):
                yield partial(
                    forward, call.matrix, weight, terms, result, steps, _ahead(call, 1), call.lanes
                )
            for s in range(scales):
                yield partial(unpack, result[s], out[s], call.pattern.place, first, call.lanes)

        work_on_tiles(call.num_threads, call.num_tiles, call.together, allocate, stages)
        return torch.from_numpy(out)

    def differentiate(
        self, kept: list[Tensor], coefficients: Tensor, grad: Tensor, needs: tuple[bool, bool]
    ) -> Gradients:
        """Differentiate the series; see :class:`.SeriesOperator`."""
        (needs_values, needs_coefficients), needs_terms = needs, any(needs)
        call = self._prepare(grad.size(2), coefficients, trains=True)
        source = grad.contiguous().numpy()
        # A part for each thread, so that the sums do not depend on who comes first; but an edge
        # belongs to a row, and a row of a shared tile to a thread.
        parts = 1 if call.together else call.num_threads
        edges = np.zeros((parts, self.csr.num_slots), call.dtype)
        # <G, T_k>, lane by lane; columns that share their coefficients share a tile's place.
        *sizes, channels = coefficients.shape
        places = 1 if channels == 1 else call.num_tiles
        size = math.prod(sizes) * len(call.lanes) * needs_coefficients
        projection = np.zeros((call.num_threads, places, size))
        # The gradients of x, in tiles: their memory is taken as that of what is kept is freed.
        found, nothing = _tiles(call, call.num_tiles), np.empty((2, 0), call.dtype)

        def allocate() -> tuple[Array, ...]:
            terms = _tiles(call, 2) if needs_terms else nothing
            return _tiles(call, len(source)), terms, *_tiles(call, 1)

        def stages(tile: int, thread: int, memory: tuple[Array, ...]) -> Iterator[Stage]:
            g, terms, spare = memory
            first, weight = tile * len(call.lanes), _weight(call, tile)
            for s in range(len(source)):
                yield partial(pack, g[s], source[s], call.pattern.node, first, call.lanes)
            if needs_terms:
                yield partial(_copy, kept[tile].numpy(), terms)
                kept[tile] = coefficients  # in place of the terms, which are free now
            for steps in reversed(_steps(call)):
                yield partial(
                    backward, call.matrix, weight, g, tuple(terms), (found[tile], spare),
                    edges[thread % parts], projection[thread, tile % places],
                    steps, _ahead(call, 1 + needs_terms), call.lanes,
                )  # fmt: skip

        def last_stage(tile: int, thread: int, memory: None) -> Iterator[Stage]:
            first = tile * len(call.lanes)
            yield partial(unpack, found[tile], grad_x, call.pattern.place, first, call.lanes)

        work_on_tiles(call.num_threads, call.num_tiles, call.together, allocate, stages)
        grad_x = np.empty(grad.shape[1:], call.dtype)
        work_on_tiles(call.num_threads, call.num_tiles, call.together, lambda: None, last_stage)
        of_values = None
        if needs_values:
            slots = np.empty_like(edges[0])
            slots[call.pattern.slot] = edges[0] if parts == 1 else edges.sum(0)
            of_values = (torch.from_numpy(slots),)
        of_coefficients = None
        if needs_coefficients:
            lanes = projection.sum(0).reshape(places, *sizes, len(call.lanes))
            if channels == 1:
                joined = lanes.sum((0, 3))[..., None]
            else:
                joined = np.moveaxis(lanes, 0, 2).reshape(*sizes, -1)[..., :channels]
            of_coefficients = torch.from_numpy(joined.astype(call.dtype))
        return torch.from_numpy(grad_x), of_values, of_coefficients

    @staticmethod
    def kept_shape(num_nodes: Any, num_columns: Any, dtype: torch.dtype) -> tuple[Any, ...]:
        """Two terms, tile after tile, zeros beyond the last column."""
        lanes = num_lanes(num_columns, dtype)
        return (num_columns + lanes - 1) // lanes, 2, num_nodes * lanes

    def _prepare(self, num_columns: int, coefficients: Tensor, trains: bool) -> _Call:
        """Order the pattern, where that pays, and divide the work among threads."""
        _say_once_that_kernels_compile()
        csr, values = self.csr, self.values[0]
        dtype = np.dtype(np.float32 if values.dtype == torch.float32 else np.float64)
        lanes = num_lanes(num_columns, values.dtype)
        num_tiles, tile_size = -(-num_columns // lanes), csr.num_rows * lanes
        visits = (coefficients.size(0) - 1) * num_tiles
        ordering = choose_for_series(csr, lanes * dtype.itemsize, visits, trains)
        pattern = csr.derived(_ordered_pattern, ordering)
        ordered = values.detach().index_select(0, torch.from_numpy(pattern.slot)).numpy()
        is_large = tile_size * dtype.itemsize > _SMALL_TILE
        work = csr.num_slots * num_columns * coefficients.size(0)
        threads = torch.get_num_threads() if work >= _MUCH_WORK else 1
        threads = max(1, threads if is_large else min(threads, num_tiles))
        return _Call(
            dtype,
            (0,) * lanes,
            num_tiles,
            tile_size,
            pattern,
            (*pattern[:3], ordered),
            coefficients.detach().contiguous().numpy(),
            _LINES_AHEAD if is_large else 0,
            threads,
            is_large and threads > 1,
        )


@cache
def _say_once_that_kernels_compile() -> None:
    _log.info(
        "Loading the numba kernels. The first time on a machine they are compiled, which takes a "
        "few seconds for each number type; then they are kept in numba's cache on disk."
    )


def _ordered_pattern(csr: CSR, ordering: Ordering) -> OrderedPattern:
    """Order a pattern; take it by ``csr.derived(_ordered_pattern, ordering)``."""
    node, place = (each.numpy() for each in csr.derived(ordering))
    rowptr, col, middle, slot = renumber(csr.rowptr.numpy(), csr.col.numpy(), node, place)
    return OrderedPattern(rowptr, col, middle, node, place, slot)


def _steps(call: _Call) -> list[tuple[int, int]]:
    """List the stages of a recurrence: all at once, unless threads wait for each other."""
    terms = call.coefficients.shape[0]
    return [(k, k + 1) for k in range(terms)] if call.together else [(0, terms)]


def _copy(source: Array, target: Array, share: tuple[int, int]) -> None:
    """Copy a thread's share of two tiles."""
    start, stop = (target.shape[1] * at // share[1] for at in (share[0], share[0] + 1))
    target[:, start:stop] = source[:, start:stop]


def _ahead(call: _Call, count: int) -> tuple[int, ...]:
    """How many edges ahead to prefetch the rows of `count` tiles."""
    lines = count * len(call.lanes) * call.dtype.itemsize // CACHE_LINE
    return (call.lines_ahead // lines,) if call.lines_ahead else ()


def _tiles(call: _Call, count: int) -> Array:
    """Take scratch memory for tiles: [count, N * lanes]."""
    return scratch((count, call.tile_size), call.dtype)


def _weight(call: _Call, tile: int) -> Array:
    """Pack the coefficients [K + 1, S, lanes] of a tile's columns, zeros beyond the last."""
    *sizes, channels = call.coefficients.shape
    width = len(call.lanes)
    weight = np.zeros((*sizes, width), call.dtype)
    if channels == 1:
        weight[:] = call.coefficients
    else:
        found = call.coefficients[..., tile * width : (tile + 1) * width]
        weight[..., : found.shape[-1]] = found
    return weight


def work_on_tiles(
    num_threads: int,
    num_tiles: int,
    together: bool,
    allocate: Callable[[], Any],
    stages: Callable[[int, int, Any], Iterable[Stage]],
) -> None:
    """Work on all tiles: on the `stages` of each, for (tile, thread, what `allocate` made).

    Together, all threads work on the same tile, with scratch memory for one tile, and wait for each
    other after every stage; otherwise thread i of n takes the tiles i, i + n, ...
    """
    if num_threads == 1:
        memory = allocate()
        for tile in range(num_tiles):
            for stage in stages(tile, 0, memory):
                stage((0, 1))
        return
    shared = allocate() if together else None
    barrier = threading.Barrier(num_threads)

    def work(thread: int) -> None:
        memory = allocate() if shared is None else shared
        tiles = range(num_tiles) if together else range(thread, num_tiles, num_threads)
        share = (thread, num_threads) if together else (0, 1)
        try:
            for tile in tiles:
                for stage in stages(tile, thread, memory):
                    stage(share)
                    if together:
                        barrier.wait()
        except threading.BrokenBarrierError:
            pass  # another thread has failed, and raises the reason
        except BaseException:
            barrier.abort()  # or the others would wait for ever
            raise

    with ThreadPoolExecutor(num_threads) as pool:
        list(pool.map(work, range(num_threads)))
