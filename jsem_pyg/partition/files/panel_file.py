"""A matrix in a file, panel after panel of columns.

A panel holds some neighbouring columns of all rows, row by row. Panels of one column are Fortran's
order, a single panel of all columns is C's. Between both, rows that are written together, and
columns that are read together (or the other way round), are long runs of bytes.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# The most bytes that are copied between a panel and a block of rows at once.
BLOCK = 4 << 20


class PanelFile:
    """Rows and columns of a matrix in a file, which is never mapped: mapped pages count as memory.

    Args:
        path: the file; it is made if it is written to and missing.
        shape: (N, D).
        width: the columns of a panel; the last one may have fewer.
        dtype: of the numbers.
        offset: the byte at which they begin.
        writes: whether it is written to, not only read.
    """

    def __init__(
        self,
        path: Path,
        shape: tuple[int, int],
        width: int,
        dtype: np.dtype[Any],
        offset: int = 0,
        writes: bool = False,
    ) -> None:
        if writes:
            path.touch()
        self.path, self.shape, self.width, self.offset = path, shape, max(1, width), offset
        self.dtype = np.dtype(dtype)
        self._file = path.open("r+b" if writes else "rb", buffering=0)

    @property
    def num_bytes(self) -> int:
        """The size of a whole file."""
        return self.offset + self.shape[0] * self.shape[1] * self.dtype.itemsize

    def read(self, rows: slice, columns: slice) -> Array:
        """The numbers of some rows and columns, in a new array."""
        parts = list(self._panels(columns))
        if len(parts) == 1 and parts[0][1] == slice(0, parts[0][2]):  # a panel as a whole
            return self._read_rows(parts[0][0], rows, parts[0][2])
        out = np.empty((rows.stop - rows.start, columns.stop - columns.start), self.dtype)
        at = 0
        for first, inside, width in parts:
            count = inside.stop - inside.start
            for part in self._blocks(rows, width):
                block = self._read_rows(first, part, width)
                begin, end = part.start - rows.start, part.stop - rows.start
                out[begin:end, at : at + count] = block[:, inside]
            at += count
        return out

    def write(self, rows: slice, columns: slice, values: Array) -> None:
        """Write the numbers of some rows, in whole panels, and wait until they are on the disk."""
        at = 0
        for first, inside, width in self._panels(columns):
            if inside != slice(0, width):
                raise ValueError(f"columns {columns} are not whole panels of {self.width}")
            for part in self._blocks(rows, width):
                begin, end = part.start - rows.start, part.stop - rows.start
                block = np.ascontiguousarray(values[begin:end, at : at + width], self.dtype)
                self._seek(first, part.start, width)
                _write_all(self._file, block)
            at += width
        self.sync()

    def write_bytes(self, header: bytes) -> None:
        """Write the bytes before the numbers."""
        self._file.seek(0)
        _write_all(self._file, np.frombuffer(header, np.uint8))

    def sync(self) -> None:
        """Wait until all that was written is on the disk."""
        os.fsync(self._file.fileno())

    def stat(self) -> os.stat_result:
        """Size and times of the file."""
        return os.fstat(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _panels(self, columns: slice) -> Iterator[tuple[int, slice, int]]:
        """(first column, range of columns in it, width) of each panel with some of the columns."""
        for first in range(columns.start // self.width * self.width, columns.stop, self.width):
            width = min(self.width, self.shape[1] - first)
            low, high = max(columns.start, first), min(columns.stop, first + width)
            yield first, slice(low - first, high - first), width

    def _blocks(self, rows: slice, width: int) -> Iterator[slice]:
        step = max(1, BLOCK // (width * self.dtype.itemsize))
        for begin in range(rows.start, rows.stop, step):
            yield slice(begin, min(begin + step, rows.stop))

    def _seek(self, first: int, row: int, width: int) -> None:
        entry = first * self.shape[0] + row * width
        self._file.seek(self.offset + entry * self.dtype.itemsize)

    def _read_rows(self, first: int, rows: slice, width: int) -> Array:
        """Some rows of a panel, which lie side by side in the file."""
        out = np.empty((rows.stop - rows.start, width), self.dtype)
        self._seek(first, rows.start, width)
        view = out.reshape(-1).view(np.uint8).data
        while view:
            count = self._file.readinto(view)
            if not count:
                raise EOFError(f"'{self.path}' ends before row {rows.stop}")
            view = view[count:]
        return out


def _write_all(file: Any, block: Array) -> None:
    view = block.reshape(-1).view(np.uint8).data
    while view:
        view = view[file.write(view) :]
