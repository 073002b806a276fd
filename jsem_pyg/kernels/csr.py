"""The pattern of a sparse matrix, and everything derived from it, computed once."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._groups import group_starts
from .torch_func import lasting

Array = NDArray[Any]
T = TypeVar("T")


class CSR:
    """The pattern of a sparse matrix, sorted by row, then column.

    An entry of the pattern is a *slot*. Forms that a kernel needs beside it (rows in another order,
    other integer types) are made on first use and live as long as the pattern: see :meth:`derived`.

    Args:
        rowptr: [N + 1] int64, where each row begins.
        col: [nnz] int32, or int64 where that is too narrow.
        row: [nnz] the row of each slot, if it is computed already.
        base: the same pattern without the slots (i, i), whose order serves this one as well.
    """

    def __init__(
        self, rowptr: Tensor, col: Tensor, row: Tensor | None = None, *, base: "CSR | None" = None
    ) -> None:
        self.rowptr, self.col, self.base = rowptr, col, base
        if row is not None:
            self.row = row
        self._derived: dict[Any, Any] = {}

    @cached_property
    @lasting
    def row(self) -> Tensor:
        """The row [nnz] of each slot, expanded from `rowptr`."""
        rows = torch.arange(self.num_rows, dtype=self.col.dtype, device=self.col.device)
        # Without the size, a GPU would have to wait for the sum of the counts.
        return rows.repeat_interleave(self.rowptr.diff(), output_size=self.num_slots)

    @property
    def num_rows(self) -> int:
        """The number of rows, which of a graph is the number N of nodes."""
        return self.rowptr.numel() - 1

    @property
    def num_slots(self) -> int:
        """The number nnz of entries."""
        return self.col.numel()

    @cached_property
    @lasting
    def degree(self) -> Tensor:
        """The number of entries [N] in each row."""
        return self.rowptr.diff()

    def derived(self, make: Callable[..., T], *args: Any) -> T:
        """Return `make(self, *args)`, cached. Two threads may both make it; one stays."""
        key = (make, *args)
        if key not in self._derived:
            self._derived[key] = lasting(make)(self, *args)
        return cast(T, self._derived[key])

    def to(self, device: torch.device | str) -> "CSR":
        """Return the pattern on another device."""
        base = None if self.base is None else self.base.to(device)
        rowptr, col, row = (each.to(device) for each in (self.rowptr, self.col, self.row))
        return CSR(rowptr, col, row, base=base)


# An undirected graph without self-loops, both directions of every edge, as a pattern: a slot for
# every distinct directed edge; [nnz] the slot of (j, i) for the slot of (i, j); [E] the edge of the
# list in each slot, or None if they are in order, or if some slot has several; [E] the slot of each
# edge of the list in the last case, or else None. Index tensors are int32 if that is wide enough.
SortedEdges = tuple[CSR, Tensor, Tensor | None, Tensor | None]


class Incidence(NamedTuple):
    """A sparse matrix of constants, such as an incidence or boundary matrix."""

    csr: CSR
    value: Tensor  # [nnz], of any type of number
    num_cols: int


class RowOrder(NamedTuple):
    """An order of the rows of a symmetric pattern, and its inverse; int32, on the CPU."""

    node: Tensor  # [N] the node that each place stands for
    place: Tensor  # [N] the place of each node


def given_order(csr: CSR) -> RowOrder:
    """Return the nodes in their given order."""
    node = torch.arange(csr.num_rows, dtype=torch.int32, device="cpu")
    return RowOrder(node, node)


def index_dtype(*sizes: int) -> torch.dtype:
    """Return the narrowest integer type that holds indices below all of these sizes."""
    return torch.int32 if max(sizes) < 2**31 else torch.int64


def sort_edges(row: Tensor, col: Tensor, num_nodes: int) -> SortedEdges | None:
    """Sort the edges of an undirected graph, merge equal ones, and find the reverse of each.

    On a CPU by counting, in numba; elsewhere by a key. None stands for an index outside [0, N), a
    self-loop, or an edge that has no reverse.
    """
    if row.device.type != "cpu":
        return sort_by_key(row, col, num_nodes)
    from .sorted_edges import sort_by_counting

    narrow = np.int32 if index_dtype(num_nodes, row.numel()) == torch.int32 else np.int64
    source, target = row.contiguous().numpy(), col.contiguous().numpy()
    if (found := sort_by_counting(source, target, num_nodes, narrow)) is None:
        return None
    made: list[Any] = [None if each is None else torch.from_numpy(each) for each in found]
    return CSR(*made[:3]), *made[3:]


def sort_by_key(row: Tensor, col: Tensor, num_nodes: int) -> SortedEdges | None:
    """Sort edges by a key, in plain torch, on any device.

    The order by column, then row, is that of the reversed edges if these are the same edges.
    """
    row, col = row.long(), col.long()
    low, high = torch.minimum(row, col), torch.maximum(row, col)
    if bool(((low < 0) | (high >= num_nodes) | (low == high)).any()):
        return None
    narrow = index_dtype(num_nodes, row.numel())
    key, order, slot = row * num_nodes + col, None, None
    if bool((key[1:] <= key[:-1]).any()):
        key, order = key.sort(stable=True)
        if bool((key[1:] == key[:-1]).any()):
            key, position = torch.unique_consecutive(key, return_inverse=True)
            slot, order = torch.empty_like(order).scatter_(0, order, position).to(narrow), None
        row, col = key // max(num_nodes, 1), key % max(num_nodes, 1)
    reverse = col.argsort(stable=True)
    if not (torch.equal(row[reverse], col) and torch.equal(col[reverse], row)):
        return None
    csr = CSR(group_starts(row, num_nodes), col.to(narrow))
    return csr, reverse.to(narrow), None if order is None else order.to(narrow), slot


def scipy_indices(csr: CSR) -> tuple[Array, Array]:
    """Return columns and row pointers as SciPy's graph routines want them: int32 if they fit.

    SciPy 1.11.1 and 1.11.2 find wrong components, silently, where the two differ in type.
    """
    narrow = np.int32 if index_dtype(csr.num_rows, csr.num_slots) == torch.int32 else np.int64
    return tuple(each.cpu().numpy().astype(narrow, copy=False) for each in (csr.col, csr.rowptr))  # type: ignore[return-value]


@contextmanager
def quiet_sparse_tensors() -> Iterator[None]:
    """Silence torch's warnings that sparse tensors are in beta, or are not checked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)")
        yield
