"""Keeps the settings that a run depends on, and its progress, in a small JSON file with a hash.

A run that goes on with other settings would end in another result: :func:`check_same_settings`
refuses it, in one wording.
"""

import json
import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from ._files import write_whole

_MOST_NAMED = 3  # differences that a message lists
_MISSING = "left out"


class Journal(NamedTuple):
    """The content of a journal."""

    settings: dict[str, Any]  # by name, values of JSON
    progress: dict[str, Any]  # likewise


def write_journal(
    path: str | os.PathLike[str],
    version: int,
    settings: Mapping[str, Any],
    progress: Mapping[str, Any],
) -> None:
    """Write a journal, whole or not at all: settings and progress are values of JSON by name."""
    content = {"version": version, "settings": dict(settings), "progress": dict(progress)}
    text = json.dumps({**content, "hash": _hash(content)}, indent=1, ensure_ascii=False) + "\n"
    write_whole(path, text.encode())


def read_journal(path: str | os.PathLike[str], version: int, remedy: str) -> Journal:
    """Read what `write_journal` wrote; `remedy` is what to do about a file that is no journal.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, or of another version.
    """
    text = Path(path).read_bytes()
    try:
        content = json.loads(text)
        if content.pop("hash") != _hash(content) or content["version"] != version:
            raise ValueError("another hash or version")
        return Journal(content["settings"], content["progress"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"Expected '{path}' to be the journal of a run (got a file that is damaged, or of "
            f"another release: {type(error).__name__}). To fix this, {remedy}."
        ) from error


def _hash(content: dict[str, Any]) -> str:
    return blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


def check_same_settings(
    path: str | os.PathLike[str], then: Mapping[str, Any], now: Mapping[str, Any], remedy: str
) -> None:
    """Raise a ValueError that names the settings in which a run differs from one to be resumed.

    `path` is the file or folder of the run, and `remedy` what else the user can do.
    """
    names = [
        name
        for name in [*now, *(name for name in then if name not in now)]
        if then.get(name, _MISSING) != now.get(name, _MISSING)
    ]
    if not names:
        return
    named = names[:_MOST_NAMED]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    expected = ", ".join(f"'{name}' to be {then.get(name, _MISSING)}" for name in named)
    got = ", ".join(str(now.get(name, _MISSING)) for name in named)
    raise ValueError(
        f"Expected {expected}{more}, as in the run that '{path}' was begun with (got {got}). To "
        f"fix this, use the same settings, or {remedy}."
    )
