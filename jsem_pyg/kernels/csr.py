"""The pattern that every kernel works on."""

from typing import NamedTuple

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
