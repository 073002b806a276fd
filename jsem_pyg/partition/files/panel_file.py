"""A matrix in a file, a few columns of all rows after another few."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .memory import BLOCK

Array = NDArray[Any]


class PanelFile:
    """A matrix [N, D] in a file, panel after panel of columns, each row by row.

    So rows that are written together, and columns that are read together (or the other way round),
    are long runs of bytes. The file is never mapped: mapped pages count as memory.

    Args:
        path: the file; it is made if it is missing.
        shape: (N, D).
        width: the columns of a panel; the last one may have fewer.
        dtype: of the numbers.
    """

    def __init__(
        self, path: Path, shape: tuple[int, int], width: int, dtype: np.dtype[Any]
    ) -> None:
        path.touch()
        self.path, self.shape, self.width, self.dtype = path, shape, width, np.dtype(dtype)
        self._file = path.open("r+b", buffering=0)

    def read(self, rows: slice, columns: slice) -> Array:
        """The numbers of some rows of whole panels, in a new array."""
        out = np.empty((rows.stop - rows.start, columns.stop - columns.start), self.dtype)
        for place in self._blocks(rows, columns):
            block = np.empty(out[place].shape, self.dtype)
            view = block.reshape(-1).view(np.uint8).data
            while view:
                count = self._file.readinto(view)
                if not count:
                    raise EOFError(f"'{self.path}' ends before row {rows.stop}")
                view = view[count:]
            out[place] = block
        return out

    def write(self, rows: slice, columns: slice, values: Array) -> None:
        """Write some rows of whole panels, and wait until they are on the disk."""
        for place in self._blocks(rows, columns):
            write_all(self._file, np.ascontiguousarray(values[place], self.dtype))
        os.fsync(self._file.fileno())

    def num_bytes(self, rows: int) -> int:
        """The length of the file once the first rows of every panel are written."""
        if not rows or not self.shape[1]:
            return 0
        first = (self.shape[1] - 1) // self.width * self.width
        return (first * self.shape[0] + rows * (self.shape[1] - first)) * self.dtype.itemsize

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _blocks(self, rows: slice, columns: slice) -> Iterator[tuple[slice, slice]]:
        """Go to one run of bytes after the other: the rows and columns of each, as places."""
        for first in range(columns.start, columns.stop, self.width):
            width = min(self.width, self.shape[1] - first)
            at = slice(first - columns.start, first - columns.start + width)
            step = max(1, BLOCK // (width * self.dtype.itemsize))
            for row in range(rows.start, rows.stop, step):
                self._file.seek((first * self.shape[0] + row * width) * self.dtype.itemsize)
                yield slice(row - rows.start, min(row + step, rows.stop) - rows.start), at


def write_all(file: Any, values: Array) -> None:
    """Write the numbers of a contiguous array to an unbuffered file."""
    view = values.reshape(-1).view(np.uint8).data
    while view:
        view = view[file.write(view) :]
