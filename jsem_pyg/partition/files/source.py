"""The array that is diffused: in a `.npy` file, or behind the interface of one."""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..._checks import check_unmasked, signal_limit
from ..._files import as_path
from ..._mapped_pages import MappedPages
from .memory import BLOCK

Array = NDArray[Any]

_FLOATS = ("float16", "float32", "float64")

# How many rows a fingerprint samples, and how many numbers of each.
_SAMPLES, _SAMPLE_NUMBERS = 64, 1024


class Source:
    """An array [N, D] that is read block by block.

    Args:
        source: the path of a `.npy` file, or an array with `shape`, `dtype` and slices: of NumPy,
            mapped, of h5py or zarr.

    Raises:
        TypeError: if it is neither, or not of floating-point type.
        ValueError: if it has not two dimensions, or is no `.npy` file, or only a part of one.
        OSError: if the file cannot be read.
    """

    def __init__(self, source: Any) -> None:
        self._file = as_path("source", source) if isinstance(source, str | os.PathLike) else None
        array = source if self._file is None else _mapped(self._file)
        if not all(hasattr(array, each) for each in ("shape", "dtype", "__getitem__")):
            raise TypeError(
                "Expected 'source' to be the path of a .npy file, or an array with 'shape', "
                f"'dtype' and slices (got {type(array).__name__})."
            )
        self.shape, self.dtype = _checked(array.shape, array.dtype)
        check_unmasked("source", array)
        self._array, self._pages = array, MappedPages(array)
        #: the file behind it, where it is known
        self.path = None if self._pages.filename is None else Path(self._pages.filename)
        self._opened = self._state()

    def read(self, rows: slice) -> Array:
        """Some rows, checked, in a new array in C's order.

        Raises:
            ValueError: if a number is NaN, infinite or nearly so, or the file has changed.
        """
        values = self._read(rows, slice(0, self.shape[1]))
        _check_values(values, rows.start)
        return values

    def fingerprint(self) -> str:
        """A text that is another one for other arrays, and once this array has changed."""
        seen = f"{self.dtype} {list(self.shape)}, {self._opened}"
        return seen if self._file is None else f"{seen}, sample {self._sample()}"

    def check_unchanged(self) -> None:
        """Raise a ValueError unless the array is what it was when it was opened."""
        if (now := self._state()) != self._opened:
            raise ValueError(
                f"Expected 'source' to stay as it is until it is diffused (got {now}; it "
                f"was {self._opened}). To fix this, diffuse it anew, with resume=False."
            )

    def _state(self) -> str:
        """A text that is another one once the array has changed."""
        seen = []
        if self.path is not None and self.path.exists():
            stat = self.path.stat()
            seen.append(f"{stat.st_size} bytes, written at {stat.st_mtime_ns} ns")
        if self._file is None:  # changed in memory, perhaps
            seen.append(f"numbers with the hash {self._sample()}")
        return ", ".join(seen)

    def _sample(self) -> str:
        """A hash of all numbers of an array in memory, else of some from everywhere in it."""
        running = hashlib.blake2b(digest_size=8)
        if isinstance(self._array, np.ndarray) and self.path is None:
            columns = self.shape[1]
            step = max(1, BLOCK // max(1, columns * self.dtype.itemsize))
            begins = range(0, self.shape[0], step)
        else:
            places = np.linspace(0, self.shape[0] - 1, min(_SAMPLES, self.shape[0]))
            step, columns = 1, min(self.shape[1], _SAMPLE_NUMBERS)
            begins = np.unique(places.astype(np.int64)).tolist()
        for begin in begins:
            rows = slice(begin, min(begin + step, self.shape[0]))
            running.update(self._read(rows, slice(0, columns)).tobytes())
        return running.hexdigest()

    def _read(self, rows: slice, columns: slice) -> Array:
        """Some numbers, whole chunks at once where the array has chunks."""
        values = np.empty((rows.stop - rows.start, columns.stop - columns.start), self.dtype)
        row = max(1, self.shape[1] * self.dtype.itemsize)
        chunk = (getattr(self._array, "chunks", None) or (1,))[0]
        step = max(1, BLOCK // row // chunk) * chunk
        for begin in range(rows.start, rows.stop, step):
            if self._file is not None:
                self.check_unchanged()  # what a shorter file lacks cannot be read
            part = slice(begin, min(begin + step, rows.stop))
            values[begin - rows.start : part.stop - rows.start] = self._array[part, columns]
            self._pages.let_go()
        return values


def _mapped(path: Path) -> Array:
    """The array of a `.npy` file, mapped."""
    try:
        return npy.open_memmap(path, mode="r")
    except OSError as error:
        raise type(error)(
            error.errno,
            f"Expected 'source' to be a file that can be read (got '{path}': {error.strerror})",
        ) from error
    except ValueError as error:
        raise ValueError(
            f"Expected 'source' to be a whole .npy file, as numpy.save writes it (got '{path}': "
            f"{error})."
        ) from error


def _checked(shape: Any, stored: Any) -> tuple[tuple[int, int], np.dtype[Any]]:
    """The shape and the type of an array, in the machine's order of bytes."""
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


def _check_values(values: Array, first_row: int) -> None:
    """Raise a ValueError that names the first number that is not finite, or is out of range."""
    if values.size == 0:
        return
    numbers = torch.from_numpy(values)
    limit = signal_limit(numbers.dtype)
    low, high = (float(each) for each in torch.aminmax(numbers))
    if -limit <= low and high <= limit:  # false if either is NaN
        return
    bad, what = ~np.isfinite(values), "finite"
    if not bad.any():
        bad, what = abs(values) > limit, f"within {limit:.3g} of zero, so that no sum overflows"
    row, column = (int(each) for each in np.argwhere(bad)[0])
    raise ValueError(
        f"Expected 'source' to be {what} (got {values[row, column]} in row {first_row + row}, "
        f"column {column})."
    )
