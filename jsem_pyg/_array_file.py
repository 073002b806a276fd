"""Arrays in .npy and .npz files, read without executing anything."""

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np


@contextmanager
def open_arrays(path: Path, alone: str) -> Iterator[Mapping[str, np.ndarray]]:
    """The arrays of a file by name, that of an .npy as `alone`; read where they are looked up.

    Raises:
        ValueError: if the file is damaged, or holds objects of Python, which could execute code.
        OSError: if the file cannot be opened.
    """
    with path.open("rb") as file:  # since np.load leaves a broken file open
        try:
            loaded = np.load(file, allow_pickle=False)
            yield {alone: loaded} if isinstance(loaded, np.ndarray) else loaded
        except (ValueError, EOFError, OSError, zlib.error, zipfile.BadZipFile) as error:
            # NumPy takes what it does not know for a pickle, and advises to execute it.
            pickled = "pickle" in str(error) and (
                "it holds objects of Python (a pickle), which are not read since they could "
                "execute code, or it is damaged."
            )
            raise ValueError(
                f"Could not read '{path}' as a file of arrays: {pickled or error}"
            ) from error
