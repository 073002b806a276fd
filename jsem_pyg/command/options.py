"""Define the options that several commands have, and what options take."""

import codecs
import math
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from .._table_files import Reading

LAYOUTS = ("auto", "umap", "pca", "none")  # of the map
_NEEDS = {"plotly": LAYOUTS[:3], "umap": LAYOUTS[:2]}  # modules, and the layouts that take them

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class Count(click.ParamType):
    """Takes a positive number, or "auto"."""

    name = "number or auto"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | str:
        """Read the word."""
        return "auto" if value == "auto" else click.IntRange(min=1).convert(value, param, ctx)


class ColumnType(click.ParamType):
    """NAME=TYPE: what a column is taken for."""

    name = "NAME=TYPE"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        """Read the word."""
        from .columns import TYPES

        name, _, kind = str(value).rpartition("=")
        if not name or kind not in TYPES:
            self.fail(f"expected NAME=TYPE, with one of {', '.join(TYPES)} (got {value!r}).")
        return name, kind


def check_drawable(layout: str) -> None:
    """Raise an ImportError unless a map can be drawn; called before any work."""
    for module, layouts in _NEEDS.items():
        if layout in layouts and find_spec(module) is None:
            raise ImportError(
                f"Drawing map.html with --layout {layout} needs the package that has the module "
                f"'{module}'. To install it: pip install \"jsem_pyg[command]\"; to do without the "
                "map: --layout none"
            )


def check_finite(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """Refuse NaN and infinity, which ranges of click's let through."""
    if not math.isfinite(value):
        raise click.BadParameter(f"expected a finite number (got {value}).")
    return value


def _check_encoding(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    try:
        return None if value is None else codecs.lookup(value).name
    except LookupError as error:
        raise click.BadParameter(f"{value!r} is no encoding that Python knows.") from error


def _check_sign(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    value = "\t" if value == "\\t" else value
    if value is not None and len(value) != 1:
        raise click.BadParameter(f"expected one character (got {value!r}).")
    return value


_READING = {
    "delimiter": click.option(
        "--delimiter",
        callback=_check_sign,
        help="Of a CSV file; guessed from its header. With it a .txt file is read as a table.",
    ),
    "header": click.option(
        "--header",
        type=click.IntRange(min=0),
        default=1,
        help="Of how many lines the header of a CSV file is; 0: the first line is a row.",
    ),
    "comment": click.option(
        "--comment", callback=_check_sign, help="What begins a comment, such as '#'."
    ),
    "decimal": click.option(
        "--decimal", callback=_check_sign, help="Before decimals: ',' in 1,5.  [.]"
    ),
    "thousands": click.option(
        "--thousands", callback=_check_sign, help="Between thousands: ',' in 1,000.  [none]"
    ),
    "encoding": click.option(
        "--encoding", callback=_check_encoding, help="Of a text file; UTF-8 or by its mark."
    ),
}


def reading_options(command: Callable) -> Callable:
    """Add the options for reading a file."""
    for option in reversed(_READING.values()):
        command = option(command)
    return command


def pop_reading(options: dict[str, Any]) -> "Reading":
    """Take the options for reading a file out of the others."""
    from .._table_files import Reading  # with NumPy, which help does without

    return Reading(**{name: options.pop(name) for name in _READING})


def default_cache() -> Path:
    """Return the folder of embeddings: $JSEM_PYG_CACHE, or one where caches belong."""
    if folder := os.environ.get("JSEM_PYG_CACHE"):
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
