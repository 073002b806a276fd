"""An unfinished result: a folder beside the target, with panels of columns and a journal."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._files import write_whole
from ..._fingerprint import check_same_settings
from ..._tensor_file import load_tree, save_tree

Array = NDArray[Any]

_KIND = "journal of a run"
_REMEDY = "begin anew, with resume=False, or give another 'target'"


def folder_of(target: Path) -> Path:
    """Return the folder of the unfinished result of a target."""
    return target.with_name(target.name + ".partial")


class Panels:
    """Panels of the source, and those that are diffused already.

    A panel is `width` columns of all rows, row by row in a file of its own. The width does not
    depend on the memory, so that a run with another limit can go on. A panel of the source is
    removed once its result, which is written whole, is there: these files are the journal of what
    is done. The file beside them has the settings, and says if the panels of the source are
    complete.

    Args:
        folder: where the files are.
        shape: (N, D) of the source.
        scales: S: the result has S N rows.
        width: the columns of a panel; the last one may have fewer.
        dtype: of the numbers.
    """

    def __init__(
        self, folder: Path, shape: tuple[int, int], scales: int, width: int, dtype: np.dtype[Any]
    ) -> None:
        self.folder, self.width, self.dtype = folder, width, dtype
        self.num_rows, self.channels = shape
        self.scales = scales
        self.is_gathered = False
        self._journal = folder / "journal.safetensors"

    def begin(self, settings: Mapping[str, str], resume: bool) -> None:
        """Take up what a run of the same settings has left, or begin anew in an empty folder.

        Raises:
            ValueError: if that run had other settings, or its files were cut; it names them.
        """
        self._settings = settings
        if resume and self._journal.exists():
            then = load_tree(self._journal, _KIND)
            check_same_settings(self.folder, then["settings"], settings, _REMEDY)
            self.is_gathered = then["gathered"]
        if self.is_gathered:
            for first in self._firsts():
                self._check_length(first)
        else:
            for path in self.folder.iterdir():
                path.unlink()
            self._note()

    def append_rows(self, values: Array) -> None:
        """Append rows [R, D] to all panels of the source."""
        for first in self._firsts():
            with self._source(first).open("ab") as file:
                file.write(np.ascontiguousarray(values[:, first : first + self.width]).data)

    def note_gathered(self) -> None:
        """Note that the panels of the source are complete, once they are on the disk."""
        for first in self._firsts():
            with self._source(first).open("ab") as file:
                os.fsync(file.fileno())
        self.is_gathered = True
        self._note()

    def left(self, width: int) -> list[slice]:
        """List the columns that are not diffused yet, about `width` at once, in whole panels."""
        left = [first for first in self._firsts() if not self._result(first).exists()]
        pieces: list[slice] = []
        for first in left:
            end = min(first + self.width, self.channels)
            if pieces and pieces[-1].stop == first and end - pieces[-1].start <= width:
                pieces[-1] = slice(pieces[-1].start, end)
            else:
                pieces.append(slice(first, end))
        return pieces

    def read(self, columns: slice, out: Array) -> None:
        """Read some columns of the source into `out` [N, C]."""
        for first in range(columns.start, columns.stop, self.width):
            panel = out[:, first - columns.start : first - columns.start + self.width]
            panel[:] = np.fromfile(self._source(first), self.dtype).reshape(panel.shape)

    def write(self, columns: slice, values: Array) -> None:
        """Write some columns [S N, C] of the result, and remove those of the source."""
        for first in range(columns.start, columns.stop, self.width):
            panel = values[:, first - columns.start : first - columns.start + self.width]
            _write_panel(self._result(first), np.ascontiguousarray(panel))
            self._source(first).unlink()

    def read_rows(self, rows: slice) -> Array:
        """Read some rows [R, D] of the result."""
        out = np.empty((rows.stop - rows.start, self.channels), self.dtype)
        for first in self._firsts():
            panel = out[:, first : first + self.width]
            offset = rows.start * panel.shape[1] * self.dtype.itemsize
            found = np.fromfile(self._result(first), self.dtype, panel.size, offset=offset)
            panel[:] = found.reshape(panel.shape)
        return out

    def remove(self) -> None:
        """Remove the folder, the journal first: without it, no file is taken for a panel."""
        self._journal.unlink()
        shutil.rmtree(self.folder)

    def _firsts(self) -> range:
        """List the first column of every panel; none if there are no numbers."""
        return range(0, self.channels if self.num_rows else 0, self.width)

    def _source(self, first: int) -> Path:
        return self.folder / f"source-{first:06d}"

    def _result(self, first: int) -> Path:
        return self.folder / f"result-{first:06d}"

    def _note(self) -> None:
        content = {"settings": dict(self._settings), "gathered": self.is_gathered}
        save_tree(self._journal, _KIND, "settings", content)

    def _check_length(self, first: int) -> None:
        is_done = self._result(first).exists()
        path = self._result(first) if is_done else self._source(first)
        rows = self.num_rows * (self.scales if is_done else 1)
        num_bytes = rows * min(self.width, self.channels - first) * self.dtype.itemsize
        found = path.stat().st_size if path.exists() else 0
        if found != num_bytes:
            raise ValueError(
                f"Expected '{path}' to have {num_bytes} bytes, as the run that is resumed left it "
                f"(got {found}). To fix this, begin anew, with resume=False."
            )


def _write_panel(path: Path, panel: Array) -> None:
    write_whole(path, panel.data)
