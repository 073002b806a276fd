"""The folder that a map is written to: its files, what it was made from, and its progress.

``run.json`` comes first and lists what the run depends on. Every other file that is read again is
written whole, and then ``run.json`` notes its hash: so whatever is noted can be taken by a run that
resumes, and a file that was damaged, or comes from another map, is refused.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._extras import version_of
from .._files import check_writable, content_hash
from .._journal import Journal, check_same_settings, read_journal, write_journal

if TYPE_CHECKING:
    from torch import Tensor

    from ..datasets.word_features import WordFeatures
    from ..estimators import DiffusionClusterer

# What reads tensors is imported where it is needed: a folder is checked before torch is there.
_FORMAT = 6
_RUN = "run.json"
_POINTS = "points of a map"
_REMEDY = "map again with --overwrite"
# What a fitted estimator and an embedding may change with.
_MAKERS = ("jsem_pyg", "torch", "scikit-learn", "sentence-transformers")


class MapFolder:
    """The files of one map, by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.map = path / "map.html"
        self.clusters = path / "clusters.csv"
        self.left_out = path / "left_out.csv"
        self.report = path / "report.md"
        self.clusterer = path / "clusterer.safetensors"
        self.points = path / "points.safetensors"
        self._run = path / _RUN

    @property
    def _files(self) -> list[Path]:
        results = [self.map, self.clusters, self.left_out, self.report]
        return [*results, self.clusterer, self.points, self._run]

    def check_free(self, resume: bool, overwrite: bool) -> None:
        """Raise unless a run may write here; called before it reads anything."""
        check_writable("--output", self._run if self.path.is_dir() else self.path)
        if not self.path.exists():
            if resume:
                raise ValueError(f"Expected a run to resume in '{self.path}' (got no such folder).")
            return
        if not self.path.is_dir():
            raise FileExistsError(f"Expected --output to be a folder (got the file '{self.path}').")
        if resume and not self._run.exists():
            raise ValueError(f"Expected a run to resume in '{self.path}' (got none).")
        foreign = sorted(each.name for each in set(self.path.iterdir()) - set(self._files))
        foreign = [name for name in foreign if not name.endswith(".tmp")]
        if overwrite and foreign:
            raise ValueError(
                f"Expected '{self.path}' to hold a map and nothing else, to be overwritten (got "
                f"{foreign[0]!r} in it). To fix this, take another --output."
            )
        if not (resume or overwrite) and (foreign or any(map(Path.exists, self._files))):
            raise FileExistsError(
                f"Expected --output to be a folder that is new or empty (got '{self.path}'). To "
                "fix this, take another, or --resume what was begun there, or --overwrite it."
            )

    def start(self, settings: dict[str, Any], resume: bool) -> None:
        """Begin a run with these settings, or go on with one, which must have the same."""
        settings = json.loads(json.dumps({**settings, "made by": _versions()}))
        if resume:
            then, of_file = self.read().settings, "hash of the file"
            if then["file"] == settings["file"] and then[of_file] != settings[of_file]:
                raise ValueError(
                    f"Expected '{settings['file']}' as it was when the run in '{self.path}' was "
                    "begun (the file has changed since). To fix this, --overwrite the map."
                )
            check_same_settings(self.path, then, settings, "--overwrite it")
            return
        for file in self._files:
            file.unlink(missing_ok=True)
        write_journal(self._run, _FORMAT, settings, {"finished": False, "files": {}})

    def keep(self, file: Path) -> None:
        """Note that this run has written a file."""
        settings, progress = self.read()
        files = {**progress["files"], file.name: content_hash(file)}
        write_journal(self._run, _FORMAT, settings, {**progress, "files": files})

    def has(self, file: Path) -> bool:
        """True if this run, or the one that it resumes, wrote a file that is still there.

        Raises:
            ValueError: if another file is there in its place.
        """
        if file.name not in self.read().progress["files"] or not file.exists():
            return False
        self._read(file, lambda path: None)
        return True

    def finish(self, result: dict[str, Any]) -> None:
        """Note the result; from then on points can be assigned."""
        settings, progress = self.read()
        write_journal(self._run, _FORMAT, settings, {**progress, "finished": True, **result})

    def read(self) -> Journal:
        """The settings of the run, and its progress: "finished", "files", and then the "names"."""
        if not self._run.is_file():
            raise FileNotFoundError(
                f"Expected a folder that `jsem-pyg map` has written (got '{self.path}', where "
                f"there is no {_RUN})."
            )
        return read_journal(self._run, _FORMAT, _REMEDY)

    def read_points(self) -> dict[str, Any]:
        """The embeddings "x" [P, D], the "documents" [P] and the state of their "words"."""
        from .._tensor_file import load_tree

        points: dict[str, Any] = self._read(self.points, lambda path: load_tree(path, _POINTS))
        return points

    def save_points(self, x: "Tensor", documents: list[str], words: "WordFeatures | None") -> None:
        """Write embeddings with their documents, which `predict` recognises, and their words."""
        from .._tensor_file import save_tree

        state = None if words is None else words.state()
        tree = {"x": x, "documents": documents, "words": state}
        save_tree(self.points, _POINTS, "points", tree)
        self.keep(self.points)

    def save_clusterer(self, clusterer: "DiffusionClusterer") -> None:
        """Write the fitted estimator."""
        clusterer.save(self.clusterer)
        self.keep(self.clusterer)

    def read_clusterer(self) -> "DiffusionClusterer":
        """The fitted estimator."""
        from ..estimators import DiffusionClusterer

        clusterer: DiffusionClusterer = self._read(self.clusterer, DiffusionClusterer.load)
        return clusterer

    def _read(self, path: Path, read: Callable[[Path], Any]) -> Any:
        noted = self.read().progress["files"].get(path.name)
        try:
            found: object = content_hash(path)
        except OSError as error:
            found = error.strerror
        if found != noted:
            got = "another file than the run wrote there" if path.is_file() else found
            raise ValueError(
                f"Expected '{path}' to be as `jsem-pyg map` wrote it (got {got}). To fix this, "
                f"{_REMEDY}."
            )
        return read(path)

    def differences(self) -> list[str]:
        """The packages that are here in another version than the map was made by."""
        then, now = self.read().settings["made by"], _versions()
        return [f"{name} {then[name]}, now {now[name]}" for name in then if then[name] != now[name]]


def _versions() -> dict[str, str | None]:
    return {name: version_of(name) for name in _MAKERS}
