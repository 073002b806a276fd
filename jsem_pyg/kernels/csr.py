"""The patterns that kernels work on."""

from typing import NamedTuple

import torch
from torch import Tensor


class CSR(NamedTuple):
    """The pattern of a square sparse matrix, sorted by row, then column.

    `row` repeats what `rowptr` says, entry by entry, for the kernels that scatter.
    """

    rowptr: Tensor  # [N + 1] int64, where each row begins
    row: Tensor  # [nnz] int64
    col: Tensor  # [nnz] int64

    @property
    def num_nodes(self) -> int:
        """The number N of rows and columns."""
        return self.rowptr.numel() - 1


class SymmetricCSR(NamedTuple):
    """A simple undirected graph, both directions of every edge, sorted by row, then column."""

    csr: CSR
    reverse: Tensor  # [E] the slot of (j, i) for the slot of (i, j)
    # [E] the column of `edge_index` in each slot, or of its reverse; None: they are in order
    order: Tensor | None

    def to_slots(self, values: Tensor) -> Tensor:
        """[E] values of the columns -> [E] in the slots."""
        return values if self.order is None else values[self.order]

    @property
    def degree(self) -> Tensor:
        """[N] the number of neighbours."""
        return self.csr.rowptr.diff()

    def to_edges(self, slots: Tensor) -> Tensor:
        """[E] values in the slots -> [E] of the columns."""
        return (
            slots if self.order is None else torch.empty_like(slots).scatter_(0, self.order, slots)
        )
