"""The folder that a map is written to: what is in it, what it was made from, and how far it is.

``run.json`` comes first and lists what the run depends on; every other file is written whole, by a
run that depends on the same. So whatever is there can be taken by a run that resumes, and a run
that depends on anything else is refused.
"""

import json
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .._extras import version_of
from .._files import check_writable, write_whole
from .._tensor_file import load_tree, save_tree

if TYPE_CHECKING:
    from ..estimators import DiffusionClusterer

_FORMAT = 2
_RUN = "run.json"
_POINTS = "points of a map"
# What a fitted estimator and an embedding may change with.
_MAKERS = ("jsem_pyg", "torch", "scikit-learn", "sentence-transformers")


class MapFolder:
    """The files of one map, by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.map = path / "map.html"
        self.clusters = path / "clusters.csv"
        self.report = path / "report.md"
        self.clusterer = path / "clusterer.safetensors"
        self.points = path / "points.safetensors"
        self._pickle = path / "clusterer.joblib"  # of format 1
        self._run = path / _RUN

    @property
    def _files(self) -> list[Path]:
        results = [self.map, self.clusters, self.report]
        return [*results, self.clusterer, self.points, self._run, self._pickle]

    def check_free(self, resume: bool, overwrite: bool) -> None:
        """See whether a run may write here, before it reads anything.

        Raises:
            FileExistsError: if something is here, and neither was asked for.
            ValueError: if there is nothing to resume, or foreign files to overwrite.
            OSError: if the folder cannot be written to.
        """
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

    def start(self, depends: dict[str, Any], resume: bool) -> None:
        """Begin a run that depends on this, or go on with one that does.

        Raises:
            ValueError: if what was begun here depends on something else.
        """
        depends = json.loads(json.dumps({"format": _FORMAT, **depends, "made by": _versions()}))
        if resume:
            self._check_same(depends)
            return
        for file in self._files:
            file.unlink(missing_ok=True)
        self._write({"depends on": depends, "finished": False})

    def finish(self, result: dict[str, Any]) -> None:
        """Note what came out; from then on points can be assigned."""
        self._write({**self.read(), "finished": True, **result})

    def read(self) -> dict[str, Any]:
        """What is noted in ``run.json``.

        Raises:
            FileNotFoundError: if there is no map here.
            ValueError: if the note is damaged, or of another format.
        """
        if not self._run.exists():
            raise FileNotFoundError(
                f"Expected a folder that `jsem-pyg map` has written (got '{self.path}', where "
                f"there is no {_RUN})."
            )
        try:
            noted = json.loads(self._run.read_text(encoding="utf-8"))
            format_ = noted["depends on"]["format"]
            hashed = noted.pop("hash", None)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._damaged(self._run, error) from error
        if format_ != _FORMAT:
            raise ValueError(
                f"Expected a map of format {_FORMAT} (got format {format_} in '{self._run}', of "
                "another release; the model of format 1 is a pickle, which is not read since it "
                "could execute code). To fix this, map again with --overwrite."
            )
        if hashed != _hash(noted):
            raise self._damaged(self._run, "another hash than that of its content")
        return noted

    def read_points(self) -> dict[str, Any]:
        """The embeddings "x" [P, D] and the "documents" [P].

        Raises:
            ValueError: if the file is missing or damaged.
        """
        points: dict[str, Any] = self._read(self.points, lambda path: load_tree(path, _POINTS))
        return points

    def save_points(self, x: Tensor, documents: list[str]) -> None:
        """Write embeddings with their documents: `predict` recognises them."""
        save_tree(self.points, _POINTS, "points", {"x": x, "documents": documents})

    def read_clusterer(self) -> "DiffusionClusterer":
        """The fitted estimator.

        Raises:
            ValueError: if the file is missing or damaged.
        """
        from ..estimators import DiffusionClusterer

        clusterer: DiffusionClusterer = self._read(self.clusterer, DiffusionClusterer.load)
        return clusterer

    def _read(self, path: Path, read: Callable[[Path], Any]) -> Any:
        try:
            return read(path)
        except OSError as error:
            raise self._damaged(path, error.strerror) from error
        except (ValueError, LookupError, TypeError, RuntimeError) as error:
            raise self._damaged(path, "a damaged file") from error

    def _damaged(self, path: Path, found: object) -> ValueError:
        return ValueError(
            f"Expected '{path}' to be as `jsem-pyg map` wrote it (got {found}). To fix this, map "
            "again with --overwrite."
        )

    def differences(self) -> list[str]:
        """The packages that are here in another version than the map was made by."""
        then, now = self.read()["depends on"]["made by"], _versions()
        return [f"{name} {then[name]}, now {now[name]}" for name in then if then[name] != now[name]]

    def write_text(self, path: Path, text: str) -> None:
        """Write text in UTF-8."""
        write_whole(path, lambda file: file.write(text.encode()))

    def _write(self, noted: dict[str, Any]) -> None:
        noted = json.loads(json.dumps(noted))
        noted = {**noted, "hash": _hash(noted)}
        self.write_text(self._run, json.dumps(noted, indent=1, ensure_ascii=False) + "\n")

    def _check_same(self, depends: dict[str, Any]) -> None:
        before = self.read()["depends on"]
        changed = [
            f"{name} (then {before.get(name)!r}, now {depends.get(name)!r})"
            for name in [*before, *(name for name in depends if name not in before)]
            if before.get(name) != depends.get(name)
        ]
        if changed:
            raise ValueError(
                f"Expected the run in '{self.path}' to be resumed as it was begun (got another "
                f"{'; another '.join(changed)}). To fix this, --overwrite it, or take another "
                "--output."
            )


def _hash(noted: dict[str, Any]) -> str:
    return blake2b(json.dumps(noted, sort_keys=True).encode(), digest_size=16).hexdigest()


def _versions() -> dict[str, str | None]:
    return {name: version_of(name) for name in _MAKERS}
