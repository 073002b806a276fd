"""Write the folder of a map: its files, what it was made from, and its progress.

``run.json`` is written first and lists what the run depends on. Every file is written whole; those
that are read again hold a hash of their content, so that damage is seen.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._extras import version_of
from .._files import check_writable
from .._journal import Journal, check_same_settings, read_journal, write_journal

if TYPE_CHECKING:
    from torch import Tensor

    from ..datasets.word_features import WordFeatures
    from ..estimators import DiffusionClusterer

# What reads tensors is imported where it is needed: a folder is checked before torch is there.
_FORMAT = 8
_RUN = "run.json"
_POINTS = "points of a map"
_REMEDY = "map again with --overwrite"
# What a fitted estimator and an embedding may change with.
_MAKERS = ("jsem_pyg", "torch", "scikit-learn", "sentence-transformers")


class MapFolder:
    """Names the files of one map."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.map = path / "map.html"
        self.clusters = path / "clusters.csv"
        self.left_out = path / "left_out.csv"
        self.report = path / "report.md"
        self.clusterer = path / "clusterer.safetensors"
        self.points = path / "points.safetensors"
        self._run = path / _RUN
        results = [self.map, self.clusters, self.left_out, self.report]
        self._files = [*results, self.clusterer, self.points, self._run]

    def check_free(self, resume: bool, overwrite: bool) -> None:
        """Raise unless a run may write here; called before it reads anything."""
        check_writable("--output", self._run if self.path.is_dir() else self.path)
        if self.path.exists() and not self.path.is_dir():
            raise FileExistsError(f"Expected --output to be a folder (got the file '{self.path}').")
        if resume and not self._run.exists():
            raise ValueError(f"Expected a run to resume in '{self.path}' (got none).")
        there = set(self.path.iterdir()) if self.path.exists() else set()
        others = sorted(each.name for each in there - set(self._files))
        foreign = [name for name in others if not name.endswith(".tmp")]
        if overwrite and foreign:
            raise ValueError(
                f"Expected '{self.path}' to hold a map and nothing else, to be overwritten (got "
                f"{foreign[0]!r} in it). To fix this, take another --output."
            )
        if not (resume or overwrite) and (foreign or there & set(self._files)):
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
        write_journal(self._run, _FORMAT, settings, {"finished": False})

    def finish(self, result: dict[str, Any]) -> None:
        """Note the result; from then on new rows can be assigned."""
        settings, progress = self.read()
        write_journal(self._run, _FORMAT, settings, {**progress, "finished": True, **result})

    def read(self) -> Journal:
        """Read the settings of the run and its progress: "finished", "names" and more."""
        if not self._run.is_file():
            raise FileNotFoundError(
                f"Expected a folder that `jsem-pyg map` has written (got '{self.path}', where "
                f"there is no {_RUN})."
            )
        return read_journal(self._run, _FORMAT, _REMEDY)

    def save_points(self, x: "Tensor", documents: list[str], words: "WordFeatures | None") -> None:
        """Write embeddings with their documents, which `predict` recognises, and their words."""
        from .._tensor_file import save_tree

        state = None if words is None else words.state()
        tree = {"x": x, "documents": documents, "words": state}
        save_tree(self.points, _POINTS, "points", tree)

    def read_points(self) -> dict[str, Any]:
        """Read the embeddings "x" [P, D], the "documents" [P] and the state of their "words"."""
        from .._tensor_file import load_tree

        points: dict[str, Any] = load_tree(self.points, _POINTS)
        return points

    def read_clusterer(self) -> "DiffusionClusterer":
        """Read the fitted estimator."""
        from ..estimators import DiffusionClusterer

        return DiffusionClusterer.load(self.clusterer)


def _versions() -> dict[str, str | None]:
    return {name: version_of(name) for name in _MAKERS}
