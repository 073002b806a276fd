"""An unfinished result: a folder beside the target, with a journal."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..._files import sole_writer
from ..._journal import check_same_settings, read_journal, write_journal

_VERSION = 3
_BLOCK = 512  # bytes: the unit in which systems count what a file takes
_JOURNAL = "journal.json"
_REMEDY = "begin anew, with resume=False, or give another 'target'"


class Progress(NamedTuple):
    """Progress of a run, in rows and columns on the disk."""

    gathered: int = 0  # rows of the source
    diffused: int = 0  # columns
    scattered: int = 0  # rows of the result
    finished: bool = False


class PartialResult:
    """The files of an unfinished result.

    Attributes:
        folder: where they are, `target` with ".partial" behind it.
        result: the file that will take the name of the target.
        progress: how far it has come.
    """

    def __init__(self, target: Path, settings: Mapping[str, str]) -> None:
        self.target, self.folder = target, folder_of(target)
        self.settings, self.progress = settings, Progress()
        self.result = self.folder / "result.npy"

    def num_bytes(self) -> int:
        """The room that all files take on the disk."""
        every = [path.stat() for path in self.folder.iterdir()]
        return sum(getattr(each, "st_blocks", 0) * _BLOCK for each in every)

    def note(self, **done: Any) -> None:
        """Write to the journal what has been done, and is on the disk."""
        self.progress = self.progress._replace(**done)
        journal = self.folder / _JOURNAL
        write_journal(journal, _VERSION, self.settings, self.progress._asdict())

    def finish(self) -> None:
        """Rename the result to the target, in one step, and remove everything else."""
        if not self.progress.finished:
            self.note(finished=True)
        if self.result.exists():  # it does not if a run was killed after this
            os.replace(self.result, self.target)
            _sync_folder(self.target.parent)
        shutil.rmtree(self.folder)


def folder_of(target: Path) -> Path:
    """The folder of the unfinished result of a target."""
    return target.with_name(target.name + ".partial")


@contextlib.contextmanager
def partial_result(
    target: Path, settings: Mapping[str, str], resume: bool
) -> Iterator[PartialResult]:
    """The unfinished result of a target, for one process: what a run left, or a new one.

    Raises:
        ValueError: if that run had other settings; it names them.
        OSError: if the folder cannot be made, or another process is at work on it.
    """
    partial = PartialResult(target, settings)
    with sole_writer("target", partial.folder):
        journal = partial.folder / _JOURNAL
        is_left = resume and journal.exists()
        if is_left:
            then = read_journal(journal, _VERSION, _REMEDY)
            check_same_settings(partial.folder, then.settings, settings, _REMEDY)
            partial.progress = Progress(**then.progress)
            # What was renamed to the target may have been removed since.
            kept = partial.result.exists() or target.exists()
            is_left = kept or not partial.progress.finished
        if not is_left:
            partial.progress = Progress()
            for path in partial.folder.iterdir():
                path.unlink()
            partial.note()
        yield partial


def _sync_folder(folder: Path) -> None:
    """Bring a renaming to the disk, where folders can be opened for that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
