"""What lies on the disk: the array, in a `.npy` file or behind slices, and an unfinished result.

The latter is a folder beside the target, with panels of columns and a journal.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from ..._checks import check_unmasked, signal_limit
from ..._files import as_path, write_whole
from ..._fingerprint import check_same_settings
from ..._mapped_pages import MappedPages
from ..._tensor_file import load_tree, save_tree

Array = NDArray[Any]

_FLOATS = ("float16", "float32", "float64")
_KIND = "journal of a run"
_REMEDY = "remove that folder to begin anew, or give another 'target'"


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
                f"was {self.stamp}). To fix this, call again once it is written."
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


class Panels:
    """Panels of the source, and those that are diffused already.

    A panel is `width` columns of all rows, row by row in a file of its own. A panel of the source
    is removed once its result, which is written whole, is there: these files say what is done. The
    journal beside them has the settings and the width; it is written once the source is sorted.

    Args:
        folder: where the files are.
        shape: (N, D) of the source.
        scales: S: the result has S N rows.
        dtype: of the numbers.
    """

    width: int

    def __init__(
        self, folder: Path, shape: tuple[int, int], scales: int, dtype: np.dtype[Any]
    ) -> None:
        self.folder, self.scales, self.dtype = folder, scales, dtype
        self.num_rows, self.channels = shape
        self._journal = folder / "journal.safetensors"

    def begin(self, settings: Mapping[str, str], resume: bool) -> int | None:
        """Return the width of panels that a run of the same settings has left, or clear the folder.

        Raises:
            ValueError: if that run had other settings; it names them.
        """
        if resume and self._journal.exists():
            then = load_tree(self._journal, _KIND)
            check_same_settings(self.folder, then["settings"], settings, _REMEDY)
            return int(then["width"])
        for path in self.folder.iterdir():
            path.unlink()
        return None

    def append_rows(self, values: Array) -> None:
        """Append rows [R, D] to all panels of the source."""
        for columns in self.columns():
            with self._source(columns).open("ab") as file:
                file.write(np.ascontiguousarray(values[:, columns]).data)

    def note_gathered(self, settings: Mapping[str, str]) -> None:
        """Note that the panels of the source are complete, once they are on the disk."""
        for columns in self.columns():
            with self._source(columns).open("ab") as file:
                os.fsync(file.fileno())
        content = {"settings": dict(settings), "width": self.width}
        save_tree(self._journal, _KIND, "settings", content)

    def columns(self) -> list[slice]:
        """List the columns of every panel; there are none without numbers."""
        firsts = range(0, self.channels if self.num_rows else 0, self.width)
        return [slice(first, min(first + self.width, self.channels)) for first in firsts]

    def left(self) -> list[slice]:
        """List the columns that are not diffused yet."""
        return [columns for columns in self.columns() if not self._result(columns).exists()]

    def read(self, columns: slice, out: Array) -> None:
        """Read a panel of the source into `out` [N, C]."""
        _read(self._source(columns), out)

    def write(self, columns: slice, values: Array) -> None:
        """Write a panel [S N, C] of the result, and remove that of the source."""
        write_whole(self._result(columns), np.ascontiguousarray(values).data)
        self._source(columns).unlink()

    def read_rows(self, rows: slice) -> Array:
        """Read some rows [R, D] of the result."""
        out = np.empty((rows.stop - rows.start, self.channels), self.dtype)
        for columns in self.columns():
            part = np.empty((len(out), columns.stop - columns.start), self.dtype)
            _read(self._result(columns), part, rows.start)
            out[:, columns] = part
        return out

    def remove(self) -> None:
        """Remove the folder, the journal first: without it, no file is taken for a panel."""
        self._journal.unlink()
        shutil.rmtree(self.folder)

    def _source(self, columns: slice) -> Path:
        return self.folder / f"source-{columns.start:06d}"

    def _result(self, columns: slice) -> Path:
        return self.folder / f"result-{columns.start:06d}"


def _read(path: Path, out: Array, first: int = 0) -> None:
    """Read rows from `first` on into `out`, whose rows are whole rows of the file."""
    with path.open("rb") as file:
        file.seek(first * out.shape[1] * out.itemsize)
        found = file.readinto(out.data)
    if found != out.nbytes:
        raise ValueError(
            f"Expected '{path}' to have {len(out)} rows from row {first} on, as the run that is "
            f"resumed left it (got fewer). To fix this, remove '{path.parent}' and begin anew."
        )
