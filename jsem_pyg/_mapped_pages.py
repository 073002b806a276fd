"""Gives back the memory that the pages of a mapped file take once they are read."""

import mmap
from typing import Any

import numpy as np


class MappedPages:
    """Finds the mapped file behind an array, if there is one.

    Args:
        array: any array; only `numpy.memmap` and views of it have such pages.
    """

    def __init__(self, array: Any) -> None:
        while isinstance(array, np.ndarray):
            if isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap):
                break
            array = array.base
        self._map = array if isinstance(array, np.memmap) else None

    @property
    def filename(self) -> str | None:
        """Return the path of the file, if it has one."""
        name = None if self._map is None else self._map.filename
        return None if name is None else str(name)

    def let_go(self) -> None:
        """Give back the memory of the pages that were read; they are read again when needed.

        What was written to a private map ("c") is nowhere else, so it stays.
        """
        if self._map is not None and self._map.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
            self._map.base.madvise(mmap.MADV_DONTNEED)  # type: ignore[union-attr]
