"""Column tiles on the CPU: a few columns go through all terms while they stay in the cache.

The operator acts on every column by itself, so a tile of one cache line's width (16 float32 or 8
float64 columns of all nodes) is carried through the whole recurrence, forward or backward, before
the next one begins: its terms are gathered from the L2 cache instead of memory. Tiles are
independent; each of `torch.get_num_threads()` threads takes every so-many-th.

The adjoint is that of :mod:`.adjoint`: the last two terms are stored, the recurrence runs
backwards, and one gather of a neighbour's rows of B and T serves both products and the
gradient of the edge. S is symmetric, so only the sum of the gradients of S_ij and S_ji has a
meaning: an edge below the diagonal gets all of it, the one above it none.

Extra memory beside the result and the gradient of x, whatever the degree: two copies of x, and per
thread a handful of tiles and a number for each edge.
"""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..compiled import compiled
from ..csr import CSR
from ..ordering import Ordering, choose_for_series
from .lanes import add_row, adjoint_row, dot_row, project_row, step_row
from .operator import Gradients, Needs, SeriesOperator

_log = logging.getLogger(__name__)

Array = NDArray[Any]

_CACHE_LINE = 64  # bytes

# A tile is two cache lines wide while it is small: the stream of columns and values then serves
# twice as many numbers (11k nodes, 384 columns: 0.10 s instead of 0.13 s forward). Beyond this size
# the tiles of all threads would be what takes most memory.
_SMALL_TILE = 4 << 20  # bytes

# Less is over before a second thread has begun: about a millisecond of multiplications.
_MUCH_WORK = 1 << 22


class SparseOperator(SeriesOperator):
    """A sparse symmetric S.

    Args:
        csr: the pattern, with N rows.
        value: [nnz] the entries.

    Raises:
        ValueError: if there are more nodes or entries than int32 can count.
    """

    def __init__(self, csr: CSR, value: Tensor) -> None:
        if csr.num_slots >= 2**31 or csr.num_rows >= 2**31:
            raise ValueError(
                "Expected fewer than 2^31 nodes and edges for backend='numba' (got "
                f"{csr.num_rows} and {csr.num_slots})."
            )
        self.num_nodes = csr.num_rows
        self.csr, self.values = csr, (value,)

    def evaluate(
        self, x: Tensor, coefficients: Tensor, group: Tensor | None, keep: bool
    ) -> tuple[Tensor, Tensor]:
        """Forward; see :class:`.SeriesOperator`. Kept are the tiles of the last two terms."""
        problem = _Problem(self.csr, self.values[0], x.shape, coefficients, group, keep)
        out = np.empty((coefficients.size(1), *x.shape), problem.dtype)
        shape = self.kept_shape(*x.shape, x.dtype) if keep else (0, 0, 0)
        last = np.empty(shape, problem.dtype)
        problem.run(_forward, x.detach().contiguous().numpy(), out, last)
        return torch.from_numpy(out), torch.from_numpy(last)

    def differentiate(
        self, kept: Tensor, coefficients: Tensor, group: Tensor | None, grad: Tensor, needs: Needs
    ) -> Gradients:
        """Backward; see :class:`.SeriesOperator`."""
        problem = _Problem(self.csr, self.values[0], grad.shape[1:], coefficients, group, True)
        grad_x = np.empty(grad.shape[1:], problem.dtype)
        # A part for each thread, so that the sums do not depend on who comes first.
        grad_values = np.zeros((problem.num_threads, self.csr.num_slots), problem.dtype)
        grad_coefficients = problem.coefficient_gradients()
        problem.run(
            _backward,
            grad.contiguous().numpy(),
            kept.numpy(),
            grad_x,
            grad_values,
            grad_coefficients,
            needs.values or needs.coefficients,
            needs.coefficients,
        )
        joined = problem.join(grad_coefficients).to(coefficients.dtype)
        return Gradients(
            torch.from_numpy(grad_x),
            (problem.to_slots(grad_values.sum(0)),) if needs.values else None,
            joined if needs.coefficients else None,
        )

    @staticmethod
    def kept_shape(num_nodes: Any, num_columns: Any, dtype: torch.dtype) -> tuple[Any, ...]:
        """Two terms, tile after tile, zeros beyond the last column."""
        lanes = _num_lanes(num_nodes, num_columns, dtype)
        return 2, (num_columns + lanes - 1) // lanes, num_nodes * lanes


def _num_lanes(num_nodes: Any, num_columns: Any, dtype: torch.dtype) -> int:
    """The columns of a tile: one cache line, or two."""
    line = _CACHE_LINE // dtype.itemsize
    is_wide = num_columns > line and 2 * _CACHE_LINE * num_nodes <= _SMALL_TILE
    return 2 * line if is_wide else line


@cache
def _say_once_that_kernels_compile() -> None:
    _log.info(
        "Loading the numba kernels. The first time on a machine they are compiled, which takes a "
        "few seconds for each number type; then they are kept in numba's cache on disk."
    )


class _OrderedPattern(NamedTuple):
    """A CSR pattern with its nodes renumbered so that neighbours lie close in memory."""

    rowptr: Array  # [N + 1]
    col: Array  # [nnz] int32
    middle: Array  # [N] where, in each row, the columns are no longer below the diagonal
    node: Array  # [N] the node that each row stands for
    slot: Array  # [nnz] the slot that each entry comes from, or that of its reverse


def _ordered_pattern(csr: CSR, ordering: Ordering) -> _OrderedPattern:
    node, place = (each.numpy() for each in csr.derived(ordering))
    return _OrderedPattern(*_renumber(csr.rowptr.numpy(), csr.col.numpy(), node, place))


@compiled()
def _renumber(
    rowptr: Array, col: Array, node: Array, place: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """The pattern with its rows in another order, and the columns of each ascending.

    The pattern is symmetric: so row r gets the column c whenever column c is passed with r in it,
    and passing columns in ascending order leaves nothing to sort.
    """
    new_rowptr = np.zeros_like(rowptr)
    for row in range(node.size):
        new_rowptr[row + 1] = new_rowptr[row] + rowptr[node[row] + 1] - rowptr[node[row]]
    filled = new_rowptr[:-1].copy()
    new_col, slot = np.empty(col.size, np.int32), np.empty(col.size, np.int32)
    middle = new_rowptr[:-1].copy()
    for c in range(node.size):
        for old in range(rowptr[node[c]], rowptr[node[c] + 1]):
            row = place[col[old]]
            at = filled[row]
            new_col[at], slot[at] = c, old
            filled[row] += 1
            middle[row] += c < row
    return new_rowptr, new_col, middle, node, slot


class _Problem:
    """The arrays of one call, and the threads that share its tiles."""

    def __init__(
        self,
        csr: CSR,
        values: Tensor,
        shape: torch.Size,
        coefficients: Tensor,
        group: Tensor | None,
        trains: bool,
    ) -> None:
        self.dtype = np.dtype(np.float32 if values.dtype == torch.float32 else np.float64)
        self.num_nodes, self.num_columns = shape
        self.lanes = (0,) * _num_lanes(self.num_nodes, self.num_columns, values.dtype)
        self.num_tiles = -(-self.num_columns // len(self.lanes))
        work = csr.num_slots * self.num_columns * coefficients.size(0)
        threads = torch.get_num_threads() if work >= _MUCH_WORK else 1
        self.num_threads = max(1, min(threads, self.num_tiles))
        self.coefficients = coefficients.detach().contiguous().numpy()
        row_bytes = len(self.lanes) * self.dtype.itemsize
        visits = (coefficients.size(0) - 1) * self.num_tiles
        ordering = choose_for_series(csr, row_bytes, visits, trains)
        self.pattern = csr.derived(_ordered_pattern, ordering)
        ordered_values = values.detach().contiguous().numpy()[self.pattern.slot]
        groups = np.zeros(0, np.int64) if group is None else group.numpy()[self.pattern.node]
        self.matrix = (*self.pattern[:4], ordered_values, groups)

    def run(self, kernel: Callable[..., None], *arrays: Any) -> None:
        """Run a kernel on all tiles, every `num_threads`-th of them on one thread."""
        _say_once_that_kernels_compile()

        def work(thread: int) -> None:
            kernel(
                *self.matrix, self.coefficients, *arrays, thread, self.num_threads, self.lanes
            )  # fmt: skip

        if self.num_threads == 1:
            work(0)
            return
        with ThreadPoolExecutor(self.num_threads) as pool:
            list(pool.map(work, range(self.num_threads)))

    def to_slots(self, ordered: Array) -> Tensor:
        """[nnz] values of the ordered pattern -> in the order of the CSR that was given."""
        slots = np.empty_like(ordered)
        slots[self.pattern.slot] = ordered
        return torch.from_numpy(slots)

    def coefficient_gradients(self) -> Array:
        """Where the kernels put the gradients of the coefficients, lane by lane."""
        terms, scales, groups, channels = self.coefficients.shape
        # Columns that share their coefficients share a place, but for each thread.
        places = self.num_threads if channels == 1 else self.num_tiles
        return np.zeros((places, terms * scales * groups * len(self.lanes)))

    def join(self, gradients: Array) -> Tensor:
        """Lane by lane -> [K + 1, S, G, C]."""
        terms, scales, groups, channels = self.coefficients.shape
        parts = gradients.reshape(-1, terms, scales, groups, len(self.lanes))
        if channels == 1:
            return torch.from_numpy(parts.sum(axis=(0, 4)))[..., None]
        side_by_side = np.moveaxis(parts, 0, 3).reshape(terms, scales, groups, -1)
        return torch.from_numpy(side_by_side[..., :channels].copy())


@compiled(nogil=True)
def _pack(source: Array, node: Array, first: int, lanes: tuple[int, ...], tile: Array) -> None:
    """Copy columns from `first` on into a tile, in the tile's order, with zeros beyond the last."""
    width = len(lanes)
    count = min(width, source.shape[1] - first)
    for i in range(node.size):
        for lane in range(count):
            tile[i * width + lane] = source[node[i], first + lane]
        for lane in range(count, width):
            tile[i * width + lane] = 0


@compiled(nogil=True)
def _unpack(tile: Array, node: Array, lanes: tuple[int, ...], target: Array, first: int) -> None:
    width = len(lanes)
    count = min(width, target.shape[1] - first)
    for i in range(node.size):
        for lane in range(count):
            target[node[i], first + lane] = tile[i * width + lane]


@compiled(nogil=True)
def _pack_coefficients(
    coefficients: Array, first: int, lanes: tuple[int, ...], packed: Array
) -> None:
    """[K + 1, S, G, C] -> a row of lanes for each term, scale and group."""
    width = len(lanes)
    terms, scales, groups, channels = coefficients.shape
    row = 0
    for k in range(terms):
        for s in range(scales):
            for g in range(groups):
                for lane in range(width):
                    column = 0 if channels == 1 else first + lane
                    inside = column < channels
                    packed[row * width + lane] = coefficients[k, s, g, column] if inside else 0
                row += 1


@compiled(nogil=True)
def _forward(
    rowptr: Array,
    col: Array,
    middle: Array,
    node: Array,
    val: Array,
    group: Array,
    coefficients: Array,
    x: Array,
    out: Array,
    last: Array,
    thread: int,
    num_threads: int,
    lanes: tuple[int, ...],
) -> None:
    """Y = sum_k c_k T_k(S) X, and the last two terms if `last` has room for them."""
    width = len(lanes)
    terms, scales, groups, _ = coefficients.shape
    num_nodes, num_columns = x.shape
    before = np.empty(num_nodes * width, x.dtype)
    term = np.empty(num_nodes * width, x.dtype)
    result = np.empty(scales * num_nodes * width, x.dtype)
    weight = np.empty(terms * scales * groups * width, x.dtype)
    for tile in range(thread, (num_columns + width - 1) // width, num_threads):
        first = tile * width
        _pack(x, node, first, lanes, term)
        _pack_coefficients(coefficients, first, lanes, weight)
        before[:] = 0
        result[:] = 0
        for k in range(terms):
            if k > 0:
                before, term = term, before
            for i in range(num_nodes):
                if k > 0:  # T_1 = S T_0, then T_k = 2 S T_(k-1) - T_(k-2)
                    alpha, beta = (1.0, 0.0) if k == 1 else (2.0, -1.0)
                    step_row(
                        before, term, col, val, rowptr[i], rowptr[i + 1], i, alpha, beta, lanes
                    )
                g = group[i] if groups > 1 else 0
                for s in range(scales):
                    row = (k * scales + s) * groups + g
                    add_row(result, weight, term, s * num_nodes + i, row, i, lanes)
        for s in range(scales):
            _unpack(result[s * num_nodes * width :], node, lanes, out[s], first)
        if last.shape[0] > 0:
            last[0, tile], last[1, tile] = before, term


@compiled(nogil=True)
def _backward(
    rowptr: Array,
    col: Array,
    middle: Array,
    node: Array,
    val: Array,
    group: Array,
    coefficients: Array,
    grad: Array,
    last: Array,
    grad_x: Array,
    grad_values: Array,
    grad_coefficients: Array,
    needs_terms: bool,
    needs_coefficients: bool,
    thread: int,
    num_threads: int,
    lanes: tuple[int, ...],
) -> None:
    """The adjoint of `_forward`; see the module."""
    width = len(lanes)
    terms, scales, groups, channels = coefficients.shape
    num_nodes, num_columns = grad_x.shape
    edges = grad_values[thread]
    b = np.empty(num_nodes * width, grad.dtype)
    b_next = np.empty(num_nodes * width, grad.dtype)
    g_tile = np.empty(scales * num_nodes * width, grad.dtype)
    weight = np.empty(terms * scales * groups * width, grad.dtype)
    before = np.empty(num_nodes * width, grad.dtype)
    term = np.empty(num_nodes * width, grad.dtype)
    for tile in range(thread, (num_columns + width - 1) // width, num_threads):
        first = tile * width
        for s in range(scales):
            _pack(grad[s], node, first, lanes, g_tile[s * num_nodes * width :])
        _pack_coefficients(coefficients, first, lanes, weight)
        if needs_terms:
            before[:], term[:] = last[0, tile], last[1, tile]
        projection = grad_coefficients[thread if channels == 1 else tile]
        b[:] = 0
        b_next[:] = 0
        for k in range(terms - 1, -1, -1):
            # b holds B_(k+1), and b_next B_(k+2), which becomes c_k G + 2 S B_(k+1) - B_(k+2).
            # before holds T_k, and term T_(k+1), which becomes T_(k-1); at first, term holds T_K.
            is_last = k == terms - 1
            twice = 1.0 if k == 0 else 2.0  # 2 - [k = 0], of S B_1 and of the edges' gradient
            for i in range(num_nodes):
                start, stop = rowptr[i], rowptr[i + 1]
                if needs_terms and not is_last:
                    adjoint_row(
                        b, b_next, before, term, edges, col, val,
                        start, middle[i], stop, i, twice, twice, lanes,
                    )  # fmt: skip
                    if middle[i] < stop and col[middle[i]] == i:
                        edges[middle[i]] += twice * dot_row(b, before, i, lanes)
                elif not is_last:
                    step_row(b, b_next, col, val, start, stop, i, twice, -1.0, lanes)
                g = group[i] if groups > 1 else 0
                for s in range(scales):
                    row = (k * scales + s) * groups + g
                    add_row(b_next, weight, g_tile, i, row, s * num_nodes + i, lanes)
                    if needs_coefficients:
                        t_k = term if is_last else before
                        project_row(g_tile, t_k, projection, s * num_nodes + i, i, row, lanes)
            b, b_next = b_next, b
            if not is_last:
                before, term = term, before
        _unpack(b, node, lanes, grad_x, first)
