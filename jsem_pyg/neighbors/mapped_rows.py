"""Coordinates that stay on the disk: rows are read when they are needed."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._mapped_pages import MappedPages
from .._precision import unit_rows

# How many numbers are read at once.
_BLOCK_NUMBERS = 1 << 22

# How many rows are looked at before their pages are given back: with each page, systems map those
# around it as well, 64 KB on Linux.
_SCATTERED = 512


class MappedRows:
    """A matrix [N, F] in an array of NumPy's that stands for a tensor in searches.

    Args:
        array: the matrix, of float16, float32 or float64.
        unit: whether rows are read as directions, of length one.
    """

    def __init__(self, array: NDArray[Any], unit: bool) -> None:
        self._array, self._unit = array, unit
        self.shape = torch.Size(array.shape)
        self.dtype = torch.float64 if array.dtype.itemsize == 8 else torch.float32
        self._pages = MappedPages(array)

    def size(self, dim: int) -> int:
        """Return N or F."""
        return self.shape[dim]

    def new_empty(self, *size: int) -> Tensor:
        """Make a tensor of this type, without values."""
        return torch.empty(*size, dtype=self.dtype)

    def blocks(self) -> Iterator[slice]:
        """Yield all rows, in blocks that may be read at once."""
        step = max(1, _BLOCK_NUMBERS // self.size(1))
        for begin in range(0, self.size(0), step):
            yield slice(begin, min(begin + step, self.size(0)))

    def read(self, rows: NDArray[Any]) -> Tensor:
        """Read some rows as they are in the array."""
        values = self.new_empty(len(rows), self.size(1))
        for begin in range(0, len(rows), _SCATTERED):
            part = slice(begin, begin + _SCATTERED)
            values.numpy()[part] = self._array[rows[part]]
            self._pages.let_go()
        return values

    def __getitem__(self, index: Tensor | slice) -> Tensor:
        """Read the coordinates of some points, every point once, in the order of the disk."""
        if isinstance(index, slice):
            return self._placed(self.read(np.arange(*index.indices(self.size(0)))))
        row, back = index.unique(return_inverse=True)
        return self._placed(self.read(row.numpy()))[back]

    def _placed(self, x: Tensor) -> Tensor:
        return unit_rows(x) if self._unit else x
