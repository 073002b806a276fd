"""The array that is diffused: in a `.npy` file, or behind slices."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from ..._checks import check_unmasked, signal_limit
from ..._files import as_path
from ..._mapped_pages import MappedPages

Array = NDArray[Any]

_FLOATS = ("float16", "float32", "float64")


class Source:
    """An array [N, D] that is read block by block.

    Args:
        source: the path of a `.npy` file, or an array with `shape`, `dtype` and slices: of NumPy,
            mapped, of h5py or zarr.
    """

    def __init__(self, source: Any) -> None:
        if isinstance(source, str | os.PathLike):
            source = _mapped(as_path("source", source))
        elif isinstance(source, Tensor):
            source = source.detach().cpu().numpy()
        elif not all(hasattr(source, name) for name in ("shape", "dtype", "__getitem__")):
            raise TypeError(
                "Expected 'source' to be the path of a .npy file, or an array with 'shape', "
                f"'dtype' and slices (got {type(source).__name__})."
            )
        dtype, shape = np.dtype(source.dtype), list(source.shape)
        if dtype.name not in _FLOATS:
            raise TypeError(f"Expected 'source' to be one of {', '.join(_FLOATS)} (got {dtype}).")
        if len(shape) != 2:
            raise ValueError(f"Expected 'source' to have shape [N, D] (got {shape}).")
        check_unmasked("source", source)
        self.shape, self.dtype = (int(shape[0]), int(shape[1])), dtype.newbyteorder("=")
        self._array, self._pages = source, MappedPages(source)
        name = self._pages.filename
        #: the file behind it, if it is known and still there
        self.path = Path(name) if name is not None and os.path.exists(name) else None
        self.stamp = self._stamp()  #: another one once the file has changed

    def read(self, rows: slice) -> Array:
        """Read some rows, checked, into a new array in C's order.

        Raises:
            ValueError: if a number is NaN, infinite or nearly so, or the file has changed.
        """
        self.check_unchanged()  # what a shorter file lacks cannot be read
        values = np.array(self._array[rows], self.dtype, order="C")
        self._pages.let_go()
        _check_values(values, rows.start)
        return values

    def check_unchanged(self) -> None:
        """Raise a ValueError unless the file is what it was when it was opened."""
        if (now := self._stamp()) != self.stamp:
            raise ValueError(
                f"Expected 'source' to stay as it is until it is diffused (got {now}; it "
                f"was {self.stamp}). To fix this, diffuse it anew, with resume=False."
            )

    def _stamp(self) -> str:
        if self.path is None:
            return ""
        stat = self.path.stat()
        return f"{stat.st_size} bytes, written at {stat.st_mtime_ns} ns"


def _mapped(path: Path) -> Array:
    """Map the array of a `.npy` file."""
    if not path.is_file():
        raise FileNotFoundError(f"Expected 'source' to be a file (got '{path}').")
    try:
        return npy.open_memmap(path, mode="r")
    except ValueError as error:
        raise ValueError(
            f"Expected 'source' to be a whole .npy file, as numpy.save writes it (got '{path}': "
            f"{error})."
        ) from error


def _check_values(values: Array, first_row: int) -> None:
    """Raise a ValueError that names the first number that is not finite, or is out of range."""
    limit = signal_limit(torch.from_numpy(values).dtype)
    if values.size == 0 or -limit <= float(values.min()) <= float(values.max()) <= limit:
        return  # not if there is NaN
    row, column = np.argwhere(~(abs(values.astype(np.float64)) <= limit))[0].tolist()
    raise ValueError(
        f"Expected 'source' to be finite and at most {limit:.3g} in size (got "
        f"{values[row, column]} in row {first_row + row}, column {column})."
    )
