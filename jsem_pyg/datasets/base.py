"""Keep a data set in a cache that is neither stale nor half-written."""

import hashlib
import json
import logging
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.data.hypergraph_data import HyperGraphData

from .._checks import check_bool
from .._files import as_path
from .._fingerprint import describe
from .._tensor_file import check_tree, load_tree, save_tree
from .points import LabelledPoints

logger = logging.getLogger(__name__)

# To be raised when the same source shall give other points than before.
_FORMAT = 2

_KIND = "data set"

_CLASSES = {"Data": Data, "HyperGraphData": HyperGraphData}  # what a `pre_transform` may return


class PointsDataset(InMemoryDataset):
    """Processes points with labels once per source and `pre_transform`.

    A subclass returns what its points depend on (`fingerprint`), and the points (`read`). Each
    fingerprint has a folder of its own under ``root/processed``, so that a changed file, another
    model or another `pre_transform` is never answered from the cache of the old one. A
    `pre_transform` is identified by its class and public attributes, a model in it by its weights
    as well, a function by name and code.

    The cache is one safetensors file, of which nothing can be executed (PyG's own are pickles, and
    are neither written nor read). One that is damaged or was put in another's place is logged and
    made anew: it holds nothing that the source does not.

    Args:
        root: folder for the processed data.
        transform: applied to the data at every access.
        pre_transform: applied once, before the data are saved; what it makes must be a ``Data`` (or
            ``HyperGraphData``) of tensors, numbers, texts, and lists and dicts of them.
        force_reload: process again, even if there are processed data.

    Raises:
        TypeError: if `pre_transform` makes what cannot be saved.
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
        folder = folder_path("root", root)
        _check_callable("transform", transform)
        _check_callable("pre_transform", pre_transform)
        check_bool("force_reload", force_reload)
        super().__init__(str(folder), transform, pre_transform, force_reload=force_reload)
        cached = self._cached()
        self.data = _CLASSES[cached["class"]].from_dict(cached["data"])
        self.classes: list[str] = cached["classes"]

    def fingerprint(self) -> dict[str, Any]:
        """Return all that the points depend on, as JSON can write it."""
        raise NotImplementedError

    def read(self) -> LabelledPoints:
        """Get the points from their source."""
        raise NotImplementedError

    @cached_property
    def _cache_name(self) -> str:
        made_by = (
            {}
            if self.pre_transform is None
            else describe("pre_transform", self.pre_transform, deep=True)
        )
        depends_on = {"format": _FORMAT, **made_by, **self.fingerprint()}
        text = json.dumps(depends_on, sort_keys=True)
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
        """Name the file of the data and the names of the classes."""
        return ["data.safetensors"]

    def process(self) -> None:
        """Read the points, apply `pre_transform` and save."""
        points = self.read()
        data = Data(x=points.x) if points.y is None else Data(x=points.x, y=points.y)
        if self.pre_transform is not None:
            data = self.pre_transform(data)
            _check_storable(data)
        tree = {
            "name": self._cache_name,
            "class": type(data).__name__,
            "data": data.to_dict(),
            "classes": points.classes,
        }
        save_tree(self.processed_paths[0], _KIND, "data", tree)

    def _process(self) -> None:
        """Process unless that is done: in place of PyG's, which keeps pickles beside the data."""
        if self.force_reload or not os.path.exists(self.processed_paths[0]):
            self.process()

    def _cached(self) -> dict[str, Any]:
        """Load the processed data; damaged data, or data of another source, are processed again."""
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


def folder_path(name: str, path: Any) -> Path:
    """Return `path` with its ~ expanded, or raise an error if it is no path, or a file."""
    folder = as_path(name, path)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"Expected '{name}' to be a folder (got the file '{path}').")
    return folder


def existing_file(name: str, path: str | os.PathLike[str]) -> Path:
    """Return `path` with its ~ expanded, or raise a FileNotFoundError that names the argument."""
    expanded = as_path(name, path)
    if not expanded.is_file():
        raise FileNotFoundError(f"Expected '{name}' to be an existing file (got '{path}').")
    return expanded


def _check_callable(name: str, value: Any) -> None:
    if value is not None and not callable(value):
        raise TypeError(
            f"Expected '{name}' to be a function of a Data, or None (got {value!r} of type "
            f"{type(value).__name__})."
        )


def _check_storable(data: Any) -> None:
    """Raise a TypeError unless `data`, which `pre_transform` made, can be saved."""
    fix = "To fix this, pass it as 'transform', which is applied at every access and saves nothing."
    if type(data) not in _CLASSES.values():
        raise TypeError(
            f"Expected 'pre_transform' to return a {' or '.join(_CLASSES)} of PyG "
            f"(got {type(data).__name__}). {fix}"
        )
    try:
        check_tree("data", data.to_dict())
    except TypeError as error:
        raise TypeError(f"'pre_transform' made what cannot be saved. {error} {fix}") from error
