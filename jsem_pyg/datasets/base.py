"""What the datasets share: one ``Data``, and a cache that is neither stale nor half-written."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.data.data import BaseData

from .._files import write_whole
from .points import LabelledPoints

# To be raised when the same source shall give other points than before.
_FORMAT = 1


class PointsDataset(InMemoryDataset):
    """Points with labels, processed once per source.

    A subclass says what its points depend on (`fingerprint`) and how to get them (`read`). Each
    fingerprint has a folder of its own under ``root/processed``, so that a changed file or another
    model is never answered from the cache of the old one.

    Args:
        root: folder for the processed data.
        transform: applied to the data at every access.
        pre_transform: applied once, before the data are saved.
        force_reload: process again, even if there are processed data.

    Attributes:
        classes: the name of each class, by label; empty where there are no labels.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        force_reload: bool = False,
    ) -> None:
        super().__init__(os.fspath(root), transform, pre_transform, force_reload=force_reload)
        self.load(self.processed_paths[0])
        with open(self.processed_paths[1], encoding="utf-8") as file:
            self.classes: list[str] = json.load(file)

    def fingerprint(self) -> dict[str, Any]:
        """Return all that the points depend on, as JSON can write it."""
        raise NotImplementedError

    def read(self) -> LabelledPoints:
        """Get the points from their source."""
        raise NotImplementedError

    @cached_property
    def _cache_name(self) -> str:
        depends_on = json.dumps({"format": _FORMAT, **self.fingerprint()}, sort_keys=True)
        digest = hashlib.sha256(depends_on.encode()).hexdigest()
        return f"{type(self).__name__}-{digest[:16]}"

    @property
    def raw_file_names(self) -> list[str]:
        """Nothing is needed in ``root/raw``."""
        return []

    @property
    def processed_dir(self) -> str:
        """A folder for this source and these arguments alone."""
        return os.path.join(self.root, "processed", self._cache_name)

    @property
    def processed_file_names(self) -> list[str]:
        """The data, and the names of the classes."""
        return ["data.pt", "classes.json"]

    def process(self) -> None:
        """Read the points, apply `pre_transform` and save."""
        points = self.read()
        data = Data(x=points.x) if points.y is None else Data(x=points.x, y=points.y)
        data = data if self.pre_transform is None else self.pre_transform(data)
        self.save([data], self.processed_paths[0])
        names = json.dumps(points.classes)
        write_whole(self.processed_paths[1], lambda file: file.write_text(names, encoding="utf-8"))

    @classmethod
    def save(cls, data_list: Sequence[BaseData], path: str) -> None:
        """Save as `InMemoryDataset` does, but whole or not at all."""
        save = super().save
        write_whole(path, lambda temporary: save(data_list, str(temporary)))


def existing_file(name: str, path: str | os.PathLike[str]) -> Path:
    """Return `path` with its ~ expanded, or raise a FileNotFoundError that names the argument."""
    expanded = Path(path).expanduser()
    if not expanded.is_file():
        raise FileNotFoundError(f"Expected '{name}' to be an existing file (got '{path}').")
    return expanded


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file: unlike its time, it survives a copy and betrays an edit."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
