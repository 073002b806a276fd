"""Writes files whole or not at all, and checks the paths to them."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # on Windows, where nothing is locked
    fcntl = None  # type: ignore[assignment]


def as_path(name: str, value: Any) -> Path:
    """Return the argument `name` as a path with its ~ expanded, or raise a TypeError."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise TypeError(
            f"Expected '{name}' to be a path, a str or pathlib.Path "
            f"(got {value!r} of type {type(value).__name__})."
        )
    if not os.fspath(value):
        raise ValueError(f"Expected '{name}' to be a path (got an empty string).")
    return Path(value).expanduser()


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file: unlike its time, it survives a copy and betrays an edit."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_whole(
    path: str | os.PathLike[str], content: bytes | memoryview | Callable[[BinaryIO], object]
) -> None:
    """Write bytes, or what a function writes, to a temporary file that takes the name `path` then.

    The temporary file lies in the same folder, under a lock: of several that write to one path, one
    waits for the other. Its bytes reach the disk (fsync) before it takes the name. A process that
    is killed leaves its temporary file behind, and the next one that writes to `path` takes it.

    Raises:
        OSError: If the file cannot be written; `path` is then as it was.
    """
    path = Path(path)
    _check_replaceable("path", path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with _open_locked(temporary) as file:
        try:
            content(file) if callable(content) else file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()  # Windows renames no open file
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


@contextmanager
def sole_writer(name: str, folder: Path) -> Iterator[None]:
    """Within, no other run writes to a folder, which the argument `name` gave; it is made.

    The lock ends with its process. A folder that is still empty at the end is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(
                f"Expected no other run to be writing to '{name}' (got one that holds the folder "
                f"'{folder}'). To fix this, wait for that run, or give another path."
            ) from error
        except OSError:  # a file system without locks
            pass
        try:
            yield
        finally:
            with suppress(OSError):
                folder.rmdir()
    finally:
        os.close(descriptor)


def _check_replaceable(name: str, path: Path) -> None:
    """Raise an OSError unless there is a file or nothing: a device would be gone, not written."""
    if path.exists() and not path.is_file():
        number, kind = (errno.EISDIR, "a folder") if path.is_dir() else (errno.EINVAL, "a device")
        raise OSError(number, f"Expected '{name}' to be a file, or nothing yet (got {kind})", path)


def check_writable(name: str, path: Path) -> None:
    """Make the folder of `path`, and a file in it for a moment: an OSError names the argument."""
    _check_replaceable(name, path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise type(error)(
            error.errno,
            f"Expected '{name}' to be in a folder that can be written to (got '{path}': "
            f"{error.strerror})",
        ) from error


def _open_locked(path: Path) -> BinaryIO:
    """Open an empty file under a lock; anew if it was renamed while this process waited."""
    while True:
        file = open(path, "ab", opener=_open_no_link)  # noqa: SIM115  closed by the caller
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                file.truncate(0)
                return file
        file.close()


def _open_no_link(name: str, flags: int) -> int:
    """Refuse a link: others could have put it there, to a file that would be overwritten."""
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)
