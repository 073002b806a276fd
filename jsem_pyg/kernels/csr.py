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


def index_dtype(*sizes: int) -> torch.dtype:
    """Return the narrowest integer type that holds indices below all of these sizes."""
    return torch.int32 if max(sizes) < 2**31 else torch.int64


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
