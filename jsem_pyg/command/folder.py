"""The folder of a map: its files, and the record that `predict` reads.

Every file is written whole; those that are read again hold a hash of their content, so that damage
is seen. The record is written last: a folder without it is of a run that was stopped, and the same
command begins it again, with the embeddings that are kept.
"""

from pathlib import Path
from typing import Any

from .._files import check_writable

_KIND = "record of a map"


class MapFolder:
    """Names the files of one map."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.map = path / "map.html"
        self.clusters = path / "clusters.csv"
        self.report = path / "report.md"
        self.clusterer = path / "clusterer.safetensors"
        self._record = path / "map.safetensors"
        self._files = [self.map, self.clusters, self.report, self.clusterer, self._record]

    def check_free(self, overwrite: bool) -> None:
        """Raise unless a run may write here; called before it reads anything."""
        check_writable("--output", self._record if self.path.is_dir() else self.path)
        if self.path.exists() and not self.path.is_dir():
            raise FileExistsError(f"Expected --output to be a folder (got the file '{self.path}').")
        there = set(self.path.iterdir()) if self.path.exists() else set()
        foreign = sorted(each.name for each in there - set(self._files) if each.suffix != ".tmp")
        if foreign:
            raise FileExistsError(
                f"Expected --output to be a folder that is new, empty or of a map (got "
                f"'{self.path}' with {foreign[0]!r} in it). To fix this, take another --output."
            )
        if self._record in there and not overwrite:
            raise FileExistsError(
                f"Expected --output to be a folder without a map (got '{self.path}'). To fix this, "
                "take another, or --overwrite it."
            )

    def clear(self) -> None:
        """Remove the map that is there, or what a run left that was stopped; the record first."""
        for file in reversed(self._files):
            file.unlink(missing_ok=True)

    def finish(self, record: dict[str, Any]) -> None:
        """Write what new rows are read by; from then on they can be assigned."""
        from .._tensor_file import save_tree  # with torch

        save_tree(self._record, _KIND, "record", record)

    def read(self) -> dict[str, Any]:
        """Read what `finish` wrote."""
        if not self._record.is_file():
            raise FileNotFoundError(
                f"Expected a folder that `jsem-pyg map` has written (got '{self.path}', where "
                f"there is no {self._record.name}, which is written last)."
            )
        from .._tensor_file import load_tree

        record: dict[str, Any] = load_tree(self._record, _KIND)
        return record
