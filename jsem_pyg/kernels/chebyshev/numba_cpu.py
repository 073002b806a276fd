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
for each edge, and a handful of tiles; on a small graph these two for each thread.
"""

import logging
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..csr import CSR
from ..ordering import choose_for_series
from .passes import backward, forward
from .pattern import ordered_pattern
from .series import Gradients, SeriesOperator
from .simd import CACHE_LINE
from .thread_pool import Stage, TilePool
from .tiles import num_lanes, pack, scratch, unpack

_log = logging.getLogger(__name__)

Array = NDArray[Any]

# Larger tiles than this are shared by the threads: those of all would not fit the caches, and would
# be what takes most memory. (16,000 nodes: sharing takes the same time at 11,000, a fifth less at
# 20,000.)
_SMALL_TILE = 2 << 20  # bytes

# Less is over before a second thread has begun: about a millisecond of multiplications.
_MUCH_WORK = 1 << 22

# Cache lines that are prefetched and not yet used: half of the L1 cache. With half
# as many, forward takes a fifth longer.
_LINES_AHEAD = 384


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

    def evaluate(self, x: Tensor, coefficients: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
        """Sum the series; see :class:`.SeriesOperator`. The last two terms are kept in tiles."""
        problem = _Problem(self.csr, self.values[0], x.shape, coefficients, keep)
        out = np.empty((coefficients.size(1), *x.shape), problem.dtype)
        shape = self.kept_shape(x.size(0), x.size(1), x.dtype) if keep else (0, 0, 0)
        last = scratch(shape, problem.dtype)
        problem.evaluate(x.detach().contiguous().numpy(), out, last)
        return torch.from_numpy(out), torch.from_numpy(last)

    def differentiate(
        self,
        kept: Tensor,
        coefficients: Tensor,
        grad: Tensor,
        needs_values: bool,
        needs_coefficients: bool,
    ) -> Gradients:
        """Differentiate the series; see :class:`.SeriesOperator`."""
        problem = _Problem(self.csr, self.values[0], grad.shape[1:], coefficients, True)
        needs = needs_values, needs_coefficients
        return problem.differentiate(kept.numpy(), grad.contiguous().numpy(), *needs)

    @staticmethod
    def kept_shape(num_nodes: Any, num_columns: Any, dtype: torch.dtype) -> tuple[Any, ...]:
        """Two terms, tile after tile, zeros beyond the last column."""
        lanes = num_lanes(num_columns, dtype)
        return 2, (num_columns + lanes - 1) // lanes, num_nodes * lanes


@cache
def _say_once_that_kernels_compile() -> None:
    _log.info(
        "Loading the numba kernels. The first time on a machine they are compiled, which takes a "
        "few seconds for each number type; then they are kept in numba's cache on disk."
    )


class _Problem:
    """The arrays of one call, and the threads that work on them."""

    def __init__(
        self,
        csr: CSR,
        values: Tensor,
        shape: torch.Size,
        coefficients: Tensor,
        trains: bool,
    ) -> None:
        _say_once_that_kernels_compile()
        self.dtype = np.dtype(np.float32 if values.dtype == torch.float32 else np.float64)
        self.num_nodes, num_columns = shape
        self.lanes = (0,) * num_lanes(num_columns, values.dtype)
        self.num_tiles = -(-num_columns // len(self.lanes))
        self.tile_size = self.num_nodes * len(self.lanes)
        self.coefficients = coefficients.detach().contiguous().numpy()
        row_bytes = len(self.lanes) * self.dtype.itemsize
        visits = (coefficients.size(0) - 1) * self.num_tiles
        ordering = choose_for_series(csr, row_bytes, visits, trains)
        self.pattern = csr.derived(ordered_pattern, ordering)
        slot = torch.from_numpy(self.pattern.slot)
        ordered_values = values.detach().index_select(0, slot).numpy()
        self.matrix: tuple[Array, ...] = (*self.pattern[:3], ordered_values)
        self.is_large = self.tile_size * self.dtype.itemsize > _SMALL_TILE
        self.lines_ahead = _LINES_AHEAD if self.is_large else 0
        work = csr.num_slots * num_columns * coefficients.size(0)
        threads = torch.get_num_threads() if work >= _MUCH_WORK else 1
        self.pool = TilePool(threads, self.num_tiles, together=self.is_large)

    def evaluate(self, x: Array, out: Array, last: Array) -> None:
        """Write the series into `out`, and its last two terms into `last` if that has room."""
        scales = out.shape[0]

        def allocate() -> tuple[Array, Array]:
            return self._tiles(0 if last.size else 2), self._tiles(scales)

        def stages(tile: int, thread: int, memory: tuple[Array, Array]) -> Iterator[Stage]:
            own, result = memory
            terms = tuple(last[:, tile] if last.size else own)
            first, weight = tile * len(self.lanes), self._weight(tile)
            yield partial(pack, terms[0], x, self.pattern.node, first, self.lanes)
            for steps in self._steps():
                yield partial(
                    forward, self.matrix, weight, terms, result, steps, self._ahead(1), self.lanes
                )
            for s in range(scales):
                yield partial(unpack, result[s], out[s], self.pattern.place, first, self.lanes)

        self.pool.run(allocate, stages)

    def differentiate(
        self, kept: Array, grad: Array, needs_values: bool, needs_coefficients: bool
    ) -> Gradients:
        """Return the gradients of x and, where needed, of the values and of the coefficients."""
        # A part for each thread, so that the sums do not depend on who comes first; but an edge
        # belongs to a row, and a row of a shared tile to a thread.
        parts = 1 if self.pool.together else self.pool.num_threads
        edges = np.zeros((parts, self.pattern.slot.size), self.dtype)
        projection = self._coefficient_gradients(needs_coefficients)
        needs_terms = needs_values or needs_coefficients
        grad_x = np.empty(grad.shape[1:], self.dtype)

        def allocate() -> tuple[Array, ...]:
            own = 2 if needs_terms else 0
            return self._tiles(grad.shape[0]), self._tiles(own), self._tiles(2)

        def stages(tile: int, thread: int, memory: tuple[Array, ...]) -> Iterator[Stage]:
            g, terms, b = memory
            first, weight = tile * len(self.lanes), self._weight(tile)
            for s in range(grad.shape[0]):
                yield partial(pack, g[s], grad[s], self.pattern.node, first, self.lanes)
            nothing = np.empty(0, self.dtype)
            last = tuple(kept[:, tile]) if needs_terms else (nothing, nothing)
            own = tuple(terms) if needs_terms else (nothing, nothing)
            for steps in reversed(self._steps()):
                yield partial(
                    backward, self.matrix, weight, g, last, own, tuple(b),
                    edges[thread % parts], projection[thread, tile % projection.shape[1]],
                    steps, self._ahead(1 + needs_terms), self.lanes,
                )  # fmt: skip
            yield partial(unpack, b[0], grad_x, self.pattern.place, first, self.lanes)

        self.pool.run(allocate, stages)
        return (
            torch.from_numpy(grad_x),
            (self._to_slots(edges),) if needs_values else None,
            self._join(projection) if needs_coefficients else None,
        )

    def _steps(self) -> list[tuple[int, int]]:
        """List the stages of a recurrence: all at once, unless threads wait for each other."""
        terms = self.coefficients.shape[0]
        return [(k, k + 1) for k in range(terms)] if self.pool.together else [(0, terms)]

    def _ahead(self, count: int) -> tuple[int, ...]:
        """How many edges ahead to prefetch the rows of `count` tiles."""
        lines = count * len(self.lanes) * self.dtype.itemsize // CACHE_LINE
        return (self.lines_ahead // lines,) if self.lines_ahead else ()

    def _tiles(self, count: int) -> Array:
        """Take scratch memory for tiles: [count, N * lanes]."""
        return scratch((count, self.tile_size), self.dtype)

    def _weight(self, tile: int) -> Array:
        """Pack the coefficients [K + 1, S, lanes] of a tile's columns, zeros beyond the last."""
        *sizes, channels = self.coefficients.shape
        first, width = tile * len(self.lanes), len(self.lanes)
        weight = np.zeros((*sizes, width), self.dtype)
        found = self.coefficients[..., first : first + width] if channels > 1 else self.coefficients
        weight[..., : width if channels == 1 else found.shape[-1]] = found
        return weight

    def _to_slots(self, parts: Array) -> Tensor:
        """Add up [parts, nnz] of the ordered pattern, in the order of the given CSR."""
        ordered = parts[0] if len(parts) == 1 else parts.sum(0)
        slots = np.empty_like(ordered)
        slots[self.pattern.slot] = ordered
        return torch.from_numpy(slots)

    def _coefficient_gradients(self, is_needed: bool) -> Array:
        """Take the memory for <G, T_k>: [threads, tiles, (K + 1) * S * lanes].

        Columns that share their coefficients share a tile's place.
        """
        *sizes, channels = self.coefficients.shape
        places = 1 if channels == 1 else self.num_tiles
        size = int(np.prod(sizes)) * len(self.lanes) * is_needed
        return np.zeros((self.pool.num_threads, places, size))

    def _join(self, gradients: Array) -> Tensor:
        """Put numbers that lie lane by lane into the shape [K + 1, S, C]."""
        *sizes, channels = self.coefficients.shape
        parts = gradients.sum(0).reshape(-1, *sizes, len(self.lanes))
        if channels == 1:
            joined = parts.sum((0, 3))[..., None]
        else:
            joined = np.moveaxis(parts, 0, 2).reshape(*sizes, -1)[..., :channels]
        return torch.from_numpy(joined.astype(self.coefficients.dtype))
