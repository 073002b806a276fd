"""Coordinates that stay on the disk: rows are read when they are needed."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._checks import check_unmasked
from .._mapped_pages import MappedPages
from .._precision import unit_rows

# How many numbers are read at once.
_BLOCK_NUMBERS = 1 << 22

# How many rows are looked at before their pages are given back: with each page, systems map those
# around it as well, 64 KB on Linux.
_SCATTERED = 512

_FLOATS = ("float16", "float32", "float64")


class MappedRows:
    """A matrix [N, F] in an array, in place of a tensor; as much of one as is needed.

    Numbers are divided by `scale`, or rows by their length if it is None.
    """

    def __init__(self, array: NDArray[Any], scale: float | None = 1.0) -> None:
        self.array, self.scale = array, scale
        self.shape = torch.Size(array.shape)
        self.dtype = torch.float64 if array.dtype.itemsize == 8 else torch.float32
        self._pages = MappedPages(array)

    def size(self, dim: int) -> int:
        """N or F."""
        return self.shape[dim]

    def numel(self) -> int:
        """N F."""
        return self.shape.numel()

    def new_empty(self, *size: int) -> Tensor:
        """A tensor of this type, without values."""
        return torch.empty(*size, dtype=self.dtype)

    def blocks(self) -> Iterator[slice]:
        """All rows, in blocks that are each read at once."""
        step = max(1, _BLOCK_NUMBERS // self.size(1))
        for begin in range(0, self.size(0), step):
            yield slice(begin, min(begin + step, self.size(0)))

    def raw(self, rows: slice | NDArray[Any]) -> Tensor:
        """Some rows as they are in the array."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(self.size(0)))
        native = self.array.dtype.newbyteorder("=")
        values = np.empty((len(rows), self.size(1)), native)
        for begin in range(0, len(rows), _SCATTERED):
            part = slice(begin, begin + _SCATTERED)
            values[part] = self.array[rows[part]]
            self._pages.let_go()
        return torch.from_numpy(values).to(self.dtype)

    def __getitem__(self, index: Tensor | slice) -> Tensor:
        """The coordinates of some points; each of them is read once, in the order of the disk."""
        if isinstance(index, slice):
            return self._placed(self.raw(index))
        row, back = index.unique(return_inverse=True)
        return self._placed(self.raw(row.numpy()))[back]

    def _placed(self, x: Tensor) -> Tensor:
        return unit_rows(x) if self.scale is None else x / self.scale


def check_array(name: str, array: NDArray[Any]) -> None:
    """Raise unless `array` is of floating-point type and of shape [N, F] with F > 0."""
    if array.dtype.name not in _FLOATS:
        raise TypeError(f"Expected '{name}' to be one of {', '.join(_FLOATS)} (got {array.dtype}).")
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"Expected '{name}' to have shape [N, F] with F > 0 (got {list(array.shape)})."
        )
    check_unmasked(name, array)


def check_block(name: str, block: Tensor, first_row: int, allows_zero: bool) -> None:
    """Raise a ValueError that names the first row with a number that is not finite, or all zero."""
    wrong = ~block.isfinite().all(1)
    what = "to be finite"
    if not allows_zero and not bool(wrong.any()):
        wrong, what = (block == 0).all(1), "without zero vectors, which have no direction,"
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        value = block[row][~block[row].isfinite()][:1].tolist() or [0.0]
        raise ValueError(f"Expected '{name}' {what} (got {value[0]} in row {first_row + row}).")
