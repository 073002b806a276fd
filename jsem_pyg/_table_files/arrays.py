"""Read points, and perhaps labels, of an .npy or .npz file."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

# Names of the arrays that an .npz may hold; numpy calls a lone array arr_0.
_POINTS = ("x", "embeddings", "arr_0")
_LABELS = ("y", "labels")
_CLASS_NAMES = ("target_names", "classes")  # of class indices


def columns_of_arrays(path: Path) -> dict[str, Any]:
    """Read points [N, D] as rows, and labels [N] by the names of their classes."""
    x, y, classes = read_arrays(path)
    if x.ndim != 2 or (y is not None and y.shape != x.shape[:1]):
        shapes = [list(x.shape), *([] if y is None else [list(y.shape)])]
        raise ValueError(f"Expected points [N, D], perhaps labels [N], in '{path}' (got {shapes}).")
    y = y if y is None or y.dtype.kind not in "iu" or classes is None else classes[y]
    return {"x": list(x)} if y is None else {"x": list(x), "y": y}


def read_arrays(path: Path) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Read an ``.npy`` of points, or an ``.npz`` of points, perhaps labels, perhaps class names.

    Raises:
        ValueError: if the file is damaged, holds no points, class indices without a name, or
            objects of Python, which could execute code.
    """
    with path.open("rb") as file:  # since np.load leaves a broken file open
        try:
            loaded = np.load(file, allow_pickle=False)
            arrays = {"x": loaded} if isinstance(loaded, np.ndarray) else loaded
            x, labels, names = (
                next((arrays[name] for name in candidates if name in arrays), None)
                for candidates in (_POINTS, _LABELS, _CLASS_NAMES)
            )
        except (ValueError, EOFError, OSError, zlib.error, zipfile.BadZipFile) as error:
            # NumPy takes what it does not know for a pickle, and advises to execute it.
            pickled = "pickle" in str(error) and (
                "it holds objects of Python (a pickle), which are not read since they could "
                "execute code, or it is damaged."
            )
            raise ValueError(f"Could not read '{path}' as arrays: {pickled or error}") from error
        if x is None:
            raise ValueError(f"Expected one of {_POINTS} in '{path}' (got {', '.join(arrays)}).")
    if labels is not None and labels.dtype.kind in "iu" and names is not None:
        once = len(np.unique(names)) == len(names)
        if not once or (len(labels) and not 0 <= labels.min() <= labels.max() < len(names)):
            raise ValueError(
                f"Expected '{path}' to name each class once, and class indices in [0, {len(names)})"
                f" (got {labels.min()} to {labels.max()})."
            )
    return x, labels, names
