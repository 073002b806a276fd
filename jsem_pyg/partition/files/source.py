"""The array that is diffused: in a `.npy` file, or behind the interface of one."""

import hashlib
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..._checks import signal_limit
from ..._files import as_path
from ..._mapped_pages import MappedPages
from .panel_file import BLOCK, PanelFile

Array = NDArray[Any]

_FLOATS = ("float16", "float32", "float64")
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

# How many rows a fingerprint samples, and how many numbers of each.
_SAMPLES, _SAMPLE_NUMBERS = 64, 1024


class ArraySource(ABC):
    """An array [N, D] that is read piece by piece."""

    shape: tuple[int, int]  # (N, D)
    dtype: np.dtype[Any]  # of the numbers, in the machine's order of bytes
    by_columns: bool  # whether each column is one run of bytes, so that a few are read fast
    path: Path | None  # the file behind it, where it is known
    opened: str  # the state in which it was opened

    def read(self, rows: slice, columns: slice) -> Array:
        """Some rows and columns, checked, in a new array in C's order.

        Raises:
            ValueError: if one is NaN, infinite or nearly so, or the file has changed.
        """
        values = self._read(rows, columns)
        _check_values(values, rows.start, columns.start)
        return values

    def sample(self) -> str:
        """A hash of numbers from everywhere in the array."""
        running = hashlib.blake2b(digest_size=8)
        places = np.linspace(0, self.shape[0] - 1, min(_SAMPLES, self.shape[0]))
        columns = slice(0, min(self.shape[1], _SAMPLE_NUMBERS))
        for row in np.unique(places.astype(np.int64)).tolist():
            running.update(self._read(slice(row, row + 1), columns).tobytes())
        return running.hexdigest()

    def fingerprint(self) -> str:
        """A text that is another one for other arrays, and once this array has changed."""
        return f"{self.dtype} {list(self.shape)}, {self.state()}, sample {self.sample()}"

    def check_unchanged(self) -> None:
        """Raise a ValueError unless the array is what it was when it was opened."""
        if (now := self.state()) != self.opened:
            raise ValueError(
                f"Expected 'source' to stay as it is until it is diffused (got {now}; it "
                f"was {self.opened}). To fix this, diffuse it anew, with resume=False."
            )

    @abstractmethod
    def state(self) -> str:
        """A text that is another one once the array has changed."""

    @abstractmethod
    def close(self) -> None:
        """Close the file, if one was opened here."""

    @abstractmethod
    def _read(self, rows: slice, columns: slice) -> Array:
        """The numbers of :meth:`read`, unchecked."""


def open_source(source: Any) -> ArraySource:
    """Open the argument `source`.

    Raises:
        TypeError: if it is neither a path nor an array, or not of floating-point type.
        ValueError: if it has not two dimensions, or is no `.npy` file, or only a part of one.
        OSError: if the file cannot be read.
    """
    if not isinstance(source, str | os.PathLike):
        return ArrayLike(source)
    path = as_path("source", source)
    try:
        return NpyFile(path)
    except OSError as error:
        raise type(error)(
            error.errno,
            f"Expected 'source' to be a file that can be read (got '{path}': {error.strerror})",
        ) from error


class NpyFile(ArraySource):
    """A `.npy` file, in C's order or in Fortran's; read, not mapped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        shape, self.by_columns, stored, offset = _read_header(path)
        self.shape, self.dtype = _checked(shape, stored)
        width = 1 if self.by_columns else self.shape[1]
        self._file = PanelFile(path, self.shape, width, stored, offset)
        size = self._file.stat().st_size
        if size < self._file.num_bytes:
            self._file.close()
            raise ValueError(
                f"Expected 'source' to be a whole .npy file, of {self._file.num_bytes} bytes (got "
                f"'{path}', which ends after {size})."
            )
        self.opened = self.state()

    def state(self) -> str:
        """The size of the file, and when it was written to."""
        stat = self._file.stat()
        return f"{stat.st_size} bytes, written at {stat.st_mtime_ns} ns"

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self, rows: slice, columns: slice) -> Array:
        try:
            values = self._file.read(rows, columns)
        finally:
            self.check_unchanged()  # it may have become shorter
        return values.astype(self.dtype, copy=False)


class ArrayLike(ArraySource):
    """An array with `shape`, `dtype` and slices: of NumPy, mapped, of h5py or zarr."""

    def __init__(self, array: Any) -> None:
        if not all(hasattr(array, each) for each in ("shape", "dtype", "__getitem__")):
            raise TypeError(
                "Expected 'source' to be the path of a .npy file, or an array with 'shape', "
                f"'dtype' and slices (got {type(array).__name__})."
            )
        self.shape, self.dtype = _checked(array.shape, array.dtype)
        self._array, self._pages = array, MappedPages(array)
        self.path = None if self._pages.filename is None else Path(self._pages.filename)
        flags = array.flags if isinstance(array, np.ndarray) else None
        self.by_columns = flags is not None and flags.f_contiguous and not flags.c_contiguous
        self.opened = self.state()

    def state(self) -> str:
        """A hash of a sample of the numbers: nothing else of an array shows a change."""
        return f"a sample with the hash {self.sample()}"

    def close(self) -> None:
        """Nothing was opened here."""

    def _read(self, rows: slice, columns: slice) -> Array:
        values = np.empty((rows.stop - rows.start, columns.stop - columns.start), self.dtype)
        for begin in range(rows.start, rows.stop, self._step()):
            part = slice(begin, min(begin + self._step(), rows.stop))
            values[begin - rows.start : part.stop - rows.start] = self._array[part, columns]
            self._pages.let_go()
        return values

    def _step(self) -> int:
        """The number of rows read at once: whole chunks, if the array has chunks."""
        row = max(1, self.shape[1] * self.dtype.itemsize)
        chunk = (getattr(self._array, "chunks", None) or (1,))[0]
        return max(1, BLOCK // row // chunk) * chunk


def _read_header(path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """(shape, whether in Fortran's order, type, where the numbers begin) of a `.npy` file."""
    with path.open("rb") as file:
        try:
            shape, fortran, stored = _HEADERS[npy.read_magic(file)](file)
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"Expected 'source' to be a .npy file, as numpy.save writes it (got '{path}': "
                f"{error})."
            ) from error
        return shape, fortran, stored, file.tell()


def _checked(shape: Any, stored: Any) -> tuple[tuple[int, int], np.dtype[Any]]:
    try:
        dtype = np.dtype(stored)
    except TypeError as error:
        raise TypeError(
            f"Expected 'source' to have a type of NumPy's (got {stored}). To fix this, pass "
            "source.numpy() of a tensor."
        ) from error
    if dtype.name not in _FLOATS:
        raise TypeError(f"Expected 'source' to be one of {', '.join(_FLOATS)} (got {dtype}).")
    if len(shape) != 2:
        raise ValueError(f"Expected 'source' to have shape [N, D] (got {list(shape)}).")
    return (int(shape[0]), int(shape[1])), dtype.newbyteorder("=")


def _check_values(values: Array, first_row: int, first_column: int) -> None:
    """Raise a ValueError that names the first number that is not finite, or is out of range."""
    if values.size == 0:
        return
    numbers = torch.from_numpy(values)
    limit = signal_limit(numbers.dtype)
    low, high = (float(each) for each in torch.aminmax(numbers))
    if -limit <= low and high <= limit:  # false if either is NaN
        return
    bad = ~np.isfinite(values)
    what = "finite" if bad.any() else f"within {limit:.3g} of zero, so that no sum overflows"
    if not bad.any():
        bad = abs(values) > limit
    row, column = (int(each) for each in np.argwhere(bad)[0])
    raise ValueError(
        f"Expected 'source' to be {what} (got {values[row, column]} in row {first_row + row}, "
        f"column {first_column + column})."
    )
