"""Files that are written whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file, which then takes the name `path` in one step.

    The temporary file lies in the same folder, so that the step is one renaming, and has a name
    that nobody else has: threads, processes and containers that share a folder may write to one
    path at once, and the last one wins. Its bytes reach the disk (fsync) before it takes the name.

    Args:
        path: File to write; an existing one is replaced. Missing folders are made.
        write: Called with the name of the temporary file, which it makes.

    Raises:
        OSError: If the file cannot be written. Whatever is raised, `path` is then as it was, and
            the temporary file is gone.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_whole(f"{folder}/a.txt", lambda temporary: temporary.write_text("done"))
        ...     os.listdir(folder)
        ['a.txt']
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not by `tempfile`, whose files nobody but their owner may read, later neither.
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)  # there only if something above failed
