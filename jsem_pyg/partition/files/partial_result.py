"""An unfinished result: a folder beside the target, with a journal."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..._files import fcntl
from ..._journal import check_same_settings, read_journal, write_journal

_VERSION = 1
_BLOCK = 512  # bytes: the unit in which systems count what a file takes
_JOURNAL, _LOCK = "journal.json", "lock"
_REMEDY = "begin anew, with resume=False, or give another 'target'"


@dataclass(frozen=True)
class Progress:
    """Progress of a run, in rows and columns on the disk."""

    gathers: bool  # whether rows are sorted into panels before they are diffused
    scatters: bool  # whether panels are put together to rows after that
    gathered: int = 0  # rows
    diffused: int = 0  # columns
    scattered: int = 0  # rows
    finished: bool = False

    @property
    def has_begun(self) -> bool:
        """True if anything is done."""
        return self.finished or self.gathered + self.diffused > 0


class PartialResult:
    """The files of an unfinished result, locked for one process.

    Attributes:
        folder: where they are, `target` with ".partial" behind it.
        progress: how far it has come.
    """

    RESULT = "result.npy"  # the file that will take the name of the target

    def __init__(self, target: Path, settings: Mapping[str, str], progress: Progress) -> None:
        self.target, self.folder = target, folder_of(target)
        self.settings, self.progress = settings, progress

    def num_bytes(self) -> int:
        """The room that all files take on the disk."""
        every = [path.stat() for path in self.folder.iterdir()]
        return sum(getattr(each, "st_blocks", 0) * _BLOCK for each in every)

    def note(self, **done: Any) -> None:
        """Write to the journal what has been done, and is on the disk."""
        self.progress = replace(self.progress, **done)
        journal = self.folder / _JOURNAL
        write_journal(journal, _VERSION, self.settings, asdict(self.progress))

    def finish(self) -> None:
        """Rename the result to the target, in one step, and remove everything else."""
        if not self.progress.finished:
            self.note(finished=True)
        result = self.folder / self.RESULT
        if result.exists():  # it does not if a run was killed after this
            os.replace(result, self.target)
            _sync_folder(self.target.parent)
        shutil.rmtree(self.folder)


def folder_of(target: Path) -> Path:
    """The folder of the unfinished result of a target."""
    return target.with_name(target.name + ".partial")


@contextlib.contextmanager
def partial_result(
    target: Path, settings: Mapping[str, str], progress: Progress, resume: bool
) -> Iterator[PartialResult]:
    """The unfinished result of a target: what a run left, or a new one.

    Args:
        target: the path of the result.
        settings: a short text for each argument on which the result depends.
        progress: where a new run begins.
        resume: whether to go on with what a run left.

    Raises:
        ValueError: if that run had other settings; it names them.
        RuntimeError: if another process is at work on it.
        OSError: if the folder cannot be made.
    """
    partial = PartialResult(target, settings, progress)
    partial.folder.mkdir(exist_ok=True)
    with _held(partial.folder):
        journal = partial.folder / _JOURNAL
        if resume and journal.exists():
            then = read_journal(journal, _VERSION, _REMEDY)
            check_same_settings(partial.folder, then.settings, settings, _REMEDY)
            known = Progress(**then.progress)
            if known.has_begun:  # otherwise another limit may need other steps
                partial.progress = known
        else:
            _remove_all_but_lock(partial.folder)
            partial.note()
        yield partial


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    with (folder / _LOCK).open("wb") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RuntimeError(
                    "Expected 'target' to be written by one process at a time (got a folder "
                    f"'{folder}' in which another one is at work)."
                ) from error
            except OSError:  # a file system without locks
                pass
        yield


def _remove_all_but_lock(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != _LOCK:
            path.unlink()


def _sync_folder(folder: Path) -> None:
    """Bring a renaming to the disk, where folders can be opened for that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
