"""Read the words of the command `jsem-pyg`; the work is done in the other files."""

import logging
import os
import shlex
import sys
from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from .._extras import import_optional, version_of
from .._files import check_writable, sole_writer, write_whole
from .steps import Steps, counted

# What does the work, and with it torch, is imported where it begins: help comes at once.

logger = logging.getLogger(__name__)

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_PATH = click.Path(path_type=Path)
_TYPES = ("number", "date", "category", "text")


class _Group(click.Group):
    """Reports errors of files and settings in one line, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ValueError, TypeError, OSError, ImportError, LookupError, MemoryError) as error:
            logger.debug("Where it happened:", exc_info=True)
            raise click.ClickException(f"{error}" or type(error).__name__) from error


class _ColumnType(click.ParamType):
    """NAME=TYPE: what a column is taken for."""

    name = "NAME=TYPE"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        name, _, kind = str(value).rpartition("=")
        if not name or kind not in _TYPES:
            self.fail(f"expected NAME=TYPE, with one of {', '.join(_TYPES)} (got {value!r}).")
        return name, kind


def _reading_options(command: Callable) -> Callable:
    """Add the options for reading a file, which become one argument `reading`."""

    @wraps(command)
    def read(delimiter: Any, header: Any, decimal: Any, encoding: Any, **options: Any) -> None:
        from .._table_files import Reading

        command(reading=Reading(delimiter, encoding, header, decimal), **options)

    for add in (
        click.option("--encoding", help="Of a text file; UTF-8 or by its mark."),
        click.option("--decimal", help="Before decimals: ',' in 1,5.  [.]"),
        click.option(
            "--header",
            type=click.IntRange(0, 1),
            default=1,
            help="0: the first line of a CSV file is a row.",
        ),
        click.option(
            "--delimiter",
            help="Of a CSV file; guessed from its header. With it a .txt file is read as a table.",
        ),
    ):
        read = add(read)
    return read


def _default_cache() -> Path:
    """Return the folder of embeddings: $JSEM_PYG_CACHE, or one where caches belong."""
    if folder := os.environ.get("JSEM_PYG_CACHE"):
        return Path(folder).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "jsem_pyg" / "embeddings"


_cache_option = click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    default=_default_cache,
    show_default="$JSEM_PYG_CACHE or ~/.cache/jsem_pyg/embeddings",
    help="Where embeddings are kept for the next time.",
)
_verbose_option = click.option("-v", "--verbose", is_flag=True, help="Say more.")


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(version_of("jsem_pyg"), prog_name="jsem-pyg")
def main() -> None:
    """Find clusters of documents, tables or vectors, by heat that flows between neighbours.

    Exit status: 0 if all went well, 1 if a file or a folder is not what it has to be (the message
    says what), 2 if the command is not understood.
    """


_EXAMPLES = """\b
Examples:
  jsem-pyg map reviews.csv
  jsem-pyg map reviews.csv --column body --labels stars --clusters 5
  jsem-pyg predict reviews-map new_reviews.csv
"""


@main.command("map", epilog=_EXAMPLES)
@click.argument("file", type=_FILE)
@click.option(
    "-o", "--output", type=_PATH, help="Folder to write to.  [default: FILE-map, no suffix]"
)
@click.option("-c", "--column", "columns", multiple=True, help="Column to cluster.  [guessed]")
@click.option(
    "--type", "types", type=_ColumnType(), multiple=True, help="What a column is taken for."
)
@click.option(
    "--missing",
    type=click.Choice(["drop", "impute"]),
    default="drop",
    help="Rows that lack a number are left out, or get the median of its column.",
)
@click.option("--labels", help="Column to compare with; it takes no part in the clustering.")
@click.option("-k", "--clusters", type=click.IntRange(min=1), help="How many.  [estimated]")
@click.option("--neighbors", type=click.IntRange(min=1), default=15, help="Of each row.")
@click.option(
    "--metric",
    type=click.Choice(["auto", "cosine", "l2"]),
    default="auto",
    help="What makes rows neighbours: a small angle, or a small distance, as in tables.",
)
@click.option(
    "--scale",
    type=click.Choice(["auto", "robust", "standard", "none"]),
    default="auto",
    help="What columns of numbers are divided by: their interquartile range or standard deviation.",
)
@click.option(
    "--model",
    help="Name or folder of a sentence-transformers model.  [default: all-MiniLM-L6-v2, which "
    "comes along and needs no network]",
)
@click.option(
    "--words", type=click.FloatRange(min=0), default=0.5, help="Weight of words; 0 leaves them out."
)
@click.option(
    "--layout",
    type=click.Choice(["auto", "umap", "pca", "none"]),
    default="auto",
    help="Of the map: auto is t-SNE for few points, UMAP for many; none leaves it out.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of what is drawn at random.")
@click.option("--overwrite", is_flag=True, help="Replace the map that is in the folder.")
@_reading_options
@_cache_option
@_verbose_option
def map_command(
    file: Path,
    output: Path | None,
    model: str | None,
    types: tuple[tuple[str, str], ...],
    overwrite: bool,
    cache: Path,
    verbose: bool,
    **options: Any,
) -> None:
    """Find the clusters of the rows of FILE, and write a folder that shows them.

    FILE holds a document a line (.txt), a document or vector a row (.csv, .tsv, .xlsx, .json,
    .jsonl, .parquet; the columns are guessed and shown; --column sets them), or vectors (.npy,
    .npz). The folder holds map.html, clusters.csv with a row for each row of FILE, report.md and
    the fitted estimator. Rows that lack something are in no cluster. A run that was stopped is
    begun again by the same command; documents that were embedded are not embedded again.
    """
    from .folder import MapFolder
    from .source import MapSettings, read_source

    folder = MapFolder(output or Path(f"{file.name.split('.')[0] or 'file'}-map"))
    folder.check_free(overwrite)
    if options["layout"] != "none" and not find_spec("plotly"):
        raise ImportError(
            "Drawing map.html needs the package plotly. To install it: pip install "
            '"jsem_pyg[command]"; to do without the map: --layout none'
        )
    command = shlex.join(["jsem-pyg", *sys.argv[1:]])
    settings = MapSettings(file=file, command=command, types=dict(types), **options)
    steps = Steps()
    with steps.listening(verbose), sole_writer("--output", folder.path):
        source = read_source(settings, steps)
        from ..datasets.embedder import Embedder
        from .make_map import make_map

        make_map(settings, source, folder, Embedder(model, cache), steps)
    shown = folder.map if folder.map.exists() else folder.clusters
    click.echo(f"Done: see {shown} and {folder.report}.")


@main.command("predict")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("file", type=_FILE)
@click.option("-o", "--output", type=_PATH, help="CSV file to write.  [default: standard output]")
@_reading_options
@_cache_option
@_verbose_option
def predict_command(
    folder: Path, file: Path, output: Path | None, reading: Any, cache: Path, verbose: bool
) -> None:
    """Assign the rows of FILE to the clusters of the map in FOLDER, each by itself.

    FILE is read as that of the map was: the same columns (of one column the name may differ), or
    vectors of the same dimension. Nothing in FOLDER is executed.
    """
    import_optional("pandas", "`jsem-pyg predict`")
    if output is not None:
        check_writable("--output", output)
    from .folder import MapFolder
    from .predict import assign
    from .result import as_csv

    steps = Steps()
    with steps.listening(verbose):
        table = assign(MapFolder(folder), file, reading, cache, steps)
    if output is None:
        click.echo(as_csv(table), nl=False)
        return
    write_whole(output, as_csv(table))
    steps.say(f"Wrote {counted(len(table), 'row')} to {output}.")


@main.command("info")
def info_command() -> None:
    """Print versions, and which backends run here, or why they do not."""
    from .info import describe

    for line in describe():
        click.echo(line)
