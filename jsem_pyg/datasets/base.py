"""Keep the points of a data set in a cache that is neither stale nor half-written."""

import hashlib
import json
import logging
import os
from collections.abc import Callable
from functools import cached_property
from typing import Any

from torch_geometric.data import Data, InMemoryDataset

from .._checks import check_bool
from .._files import as_path
from .._tensor_file import load_tree, save_tree
from .points import LabelledPoints

logger = logging.getLogger(__name__)

# To be raised when the same source shall give other points than before.
_FORMAT = 3

_KIND = "data set"


class PointsDataset(InMemoryDataset):
    """Reads points with labels once for each source, and keeps them.

    A subclass returns what its points depend on (`fingerprint`), and the points (`read`). Each
    fingerprint has a folder of its own under ``root/processed``, so that a changed file or another
    model is never answered from the cache of the old one.

    The cache is one safetensors file, of which nothing can be executed (PyG's own are pickles, and
    are neither written nor read). One that is damaged or was put in another's place is logged and
    made anew: it holds nothing that the source does not.

    Args:
        root: folder for the points.
        transform: applied to the data at every access.
        pre_transform: applied once, when the data set is made; the result is not kept in `root`.
        force_reload: read the source again, even if its points are kept.

    Raises:
        OSError: if `root` cannot be written to.

    Attributes:
        classes: the name of each class, by label; empty if there are no labels.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        force_reload: bool = False,
    ) -> None:
        folder = as_path("root", root)
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"Expected 'root' to be a folder (got the file '{root}').")
        for name, value in {"transform": transform, "pre_transform": pre_transform}.items():
            if value is not None and not callable(value):
                raise TypeError(f"Expected '{name}' to be a function of a Data (got {value!r}).")
        check_bool("force_reload", force_reload)
        super().__init__(str(folder), transform, pre_transform, force_reload=force_reload)
        cached = self._cached()
        data = Data(**{name: cached[name] for name in ("x", "y") if cached[name] is not None})
        self.data = data if pre_transform is None else pre_transform(data)
        self.classes: list[str] = cached["classes"]

    def fingerprint(self) -> dict[str, Any]:
        """Return all that the points depend on, as JSON can write it."""
        raise NotImplementedError

    def read(self) -> LabelledPoints:
        """Get the points from their source."""
        raise NotImplementedError

    @cached_property
    def _cache_name(self) -> str:
        text = json.dumps({"format": _FORMAT, **self.fingerprint()}, sort_keys=True)
        return f"{type(self).__name__}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def raw_file_names(self) -> list[str]:
        """Ask for nothing in ``root/raw``."""
        return []

    @property
    def processed_dir(self) -> str:
        """Name a folder for this source and these arguments alone."""
        return os.path.join(self.root, "processed", self._cache_name)

    @property
    def processed_file_names(self) -> list[str]:
        """Name the file of the points and the names of the classes."""
        return ["data.safetensors"]

    def process(self) -> None:
        """Read the points, and keep them."""
        tree = {"name": self._cache_name, **self.read()._asdict()}
        save_tree(self.processed_paths[0], _KIND, "data", tree)

    def _process(self) -> None:
        """Process unless that is done: in place of PyG's, which keeps pickles beside the data."""
        if self.force_reload or not os.path.exists(self.processed_paths[0]):
            self.process()

    def _cached(self) -> dict[str, Any]:
        """Load the points; damaged points, or points of another source, are read again."""
        path = self.processed_paths[0]
        try:
            cached: dict[str, Any] = load_tree(path, _KIND)
            if cached["name"] == self._cache_name:
                return cached
            problem = f"Expected '{path}' to hold {self._cache_name} (got {cached['name']})."
        except ValueError as error:
            problem = str(error)
        logger.warning("%s Making it anew from its source.", problem)
        self.process()
        return load_tree(path, _KIND)
