"""Options that several commands have."""

import codecs
import math
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

LAYOUTS = ("umap", "pca", "none")  # of the map
_FOLDER = "JSEM_PYG_CACHE"

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _check_encoding(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    try:
        return None if value is None else codecs.lookup(value).name
    except LookupError as error:
        raise click.BadParameter(f"{value!r} is no encoding that Python knows.") from error


def check_finite(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """Refuse NaN and infinity, which ranges of click's let through."""
    if not math.isfinite(value):
        raise click.BadParameter(f"expected a finite number (got {value}).")
    return value


def _check_delimiter(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    value = "\t" if value == "\\t" else value
    if value is not None and len(value) != 1:
        raise click.BadParameter(f"expected one character (got {value!r}).")
    return value


def reading_options(command: Callable) -> Callable:
    """Options for reading a file, which a command gets as one argument, `reading`."""

    @wraps(command)
    def with_reading(
        *args: Any, delimiter: str | None, encoding: str | None, no_header: bool, **given: Any
    ) -> Any:
        from .._table_files import Reading  # with NumPy, which help does without

        return command(*args, reading=Reading(delimiter, encoding, not no_header), **given)

    decorated: Callable = with_reading
    for option in (
        click.option(
            "--no-header",
            is_flag=True,
            help="A CSV file whose first line is a row like the others.",
        ),
        click.option(
            "--encoding", callback=_check_encoding, help="Of a text file; UTF-8 or by its mark."
        ),
        click.option(
            "--delimiter", callback=_check_delimiter, help="Of a CSV file; guessed from its header."
        ),
    ):
        decorated = option(decorated)
    return decorated


def default_cache() -> Path:
    """The folder of embeddings: $JSEM_PYG_CACHE, or one where caches belong."""
    if folder := os.environ.get(_FOLDER):
        return Path(folder).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "jsem_pyg" / "embeddings"


cache_option = click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_cache,
    show_default="$JSEM_PYG_CACHE or ~/.cache/jsem_pyg/embeddings",
    help="Where embeddings are kept for the next time.",
)
verbose_option = click.option("-v", "--verbose", is_flag=True, help="Say more.")
