"""Read the words of the command `jsem-pyg`; the work is done in the other files."""

import logging
from pathlib import Path
from typing import Any

import click

from .._extras import import_optional, version_of
from .._files import check_writable, sole_writer
from .options import (
    FILE,
    LAYOUTS,
    ColumnType,
    Count,
    cache_option,
    check_drawable,
    check_finite,
    pop_reading,
    reading_options,
    verbose_option,
)
from .steps import Steps, counted

# What does the work, and with it torch, is imported where it begins: help comes at once.

logger = logging.getLogger(__name__)

_NOT_AGAIN = ("--resume", "--overwrite", "--verbose", "-v")


class _Group(click.Group):
    """Reports errors of files and settings in one line, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
            logger.debug("Where it happened:", exc_info=True)
            raise click.ClickException(f"{error}" or type(error).__name__) from error


class _Noted(click.Command):
    """Keeps the words of the command line that does this again."""

    def make_context(self, info_name: Any, args: list[str], *parent: Any, **extra: Any) -> Any:
        again = ["jsem-pyg", info_name, *(word for word in args if word not in _NOT_AGAIN)]
        context = super().make_context(info_name, args, *parent, **extra)
        context.obj = again
        return context


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(version_of("jsem_pyg"), prog_name="jsem-pyg")
def main() -> None:
    """Clusters of documents or vectors, by heat that flows between neighbours.

    Exit status: 0 if all went well, 1 if a file or a folder is not what it has to be (the message
    says what), 2 if the command is not understood.
    """


_EXAMPLES = """\b
Examples:
  jsem-pyg map reviews.csv
  jsem-pyg map reviews.csv --column body --labels stars --clusters 5
  jsem-pyg predict reviews-map new_reviews.csv
"""


@main.command("map", cls=_Noted, epilog=_EXAMPLES)
@click.argument("file", type=FILE)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Folder to write to.  [default: FILE without its suffix, and -map, here]",
)
@click.option(
    "-c",
    "--column",
    "columns",
    multiple=True,
    help="Column to cluster: text (several are joined), numbers, dates and categories, or "
    "vectors.  [guessed]",
)
@click.option(
    "--type",
    "types",
    type=ColumnType(),
    multiple=True,
    help="What a column is taken for: number, date, category or text.  [seen in its cells]",
)
@click.option(
    "--missing",
    type=click.Choice(["drop", "impute"]),
    default="drop",
    help="Rows that lack a number are left out, or get the median of its column.",
)
@click.option("--labels", help="Column to compare with; it takes no part in the clustering.")
@click.option("-k", "--clusters", type=Count(), default="auto", help="How many.")
@click.option("--neighbors", type=click.IntRange(min=1), default=15, help="Of each row.")
@click.option(
    "--metric",
    type=click.Choice(["auto", "cosine", "l2"]),
    default="auto",
    help="What makes rows neighbours: a small angle, or a small distance, as for columns of "
    "numbers.",
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
    "--words",
    type=click.FloatRange(min=0),
    callback=check_finite,
    default=0.5,
    help="Weight of the words of documents beside their embeddings; 0 leaves them out.",
)
@click.option(
    "--layout",
    type=click.Choice(LAYOUTS),
    default=LAYOUTS[0],
    help="How the map is laid out: auto is t-SNE for few points, UMAP for many; none leaves it "
    "out.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    help="Of what is drawn at random; the same seed gives the same map.",
)
@click.option("--resume", is_flag=True, help="Go on with what was begun in the folder.")
@click.option("--overwrite", is_flag=True, help="Replace the map that is in the folder.")
@reading_options
@cache_option
@verbose_option
@click.pass_context
def map_command(
    context: click.Context,
    file: Path,
    output: Path | None,
    model: str | None,
    types: tuple[tuple[str, str], ...],
    resume: bool,
    overwrite: bool,
    cache: Path,
    verbose: bool,
    **options: Any,
) -> None:
    """Find the clusters of the rows of FILE, and write a folder that shows them.

    FILE holds a document a line (.txt), a document or vector a row (.csv, .tsv, .jsonl, .parquet;
    the columns are guessed and shown; --column sets them), or vectors (.npy, .npz). The folder
    holds map.html, clusters.csv with a row for each row of FILE, report.md and the fitted
    estimator. Rows that lack something are in no cluster; left_out.csv lists them.
    """
    import_optional("pandas", "`jsem-pyg map`")
    from .folder import MapFolder
    from .source import MapSettings, read_source

    if resume and overwrite:
        raise click.UsageError("Expected --resume or --overwrite, not both.")
    folder = MapFolder(output or Path(f"{file.name.split('.')[0] or 'file'}-map"))
    steps, layout = Steps(), options["layout"]
    with steps.listening(verbose):
        check_drawable(layout)
        folder.check_free(resume, overwrite)
        reading = pop_reading(options)
        settings = MapSettings(file, reading, context.obj, types=dict(types), **options)
        source = read_source(settings, steps)
        from ..datasets.embedder import Embedder  # and torch, which takes its time
        from .make_map import make_map

        with sole_writer("--output", folder.path):
            folder.check_free(resume, overwrite)
            make_map(source, settings, folder, Embedder(model, cache), resume, steps)
    shown = f"{folder.report}" if layout == "none" else f"{folder.map} and {folder.report}"
    click.echo(f"Done: see {shown}.")


@main.command("predict")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("file", type=FILE)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="-",
    help="CSV file to write; the standard output otherwise.",
)
@click.option(
    "-c",
    "--column",
    "columns",
    multiple=True,
    help="Where FILE calls it otherwise; as many as the map has, in its order.",
)
@reading_options
@cache_option
@verbose_option
def predict_command(
    folder: Path,
    file: Path,
    output: str,
    columns: tuple[str, ...],
    cache: Path,
    verbose: bool,
    **options: Any,
) -> None:
    """Assign the rows of FILE to the clusters of the map in FOLDER, each by itself.

    FILE is read as that of the map was: the same columns, or vectors of the same dimension. Nothing
    in FOLDER is executed.
    """
    import_optional("pandas", "`jsem-pyg predict`")
    if output != "-":
        check_writable("--output", Path(output))
    from .folder import MapFolder
    from .predict import assign
    from .result import as_csv, write_csv

    steps = Steps()
    with steps.listening(verbose):
        table = assign(MapFolder(folder), file, pop_reading(options), columns, cache, steps)
    if output == "-":
        click.echo(as_csv(table), nl=False)
        return
    write_csv(Path(output), table)
    steps.say(f"Wrote {counted(len(table), 'row')} to {output}.")


@main.command("info")
@cache_option
def info_command(cache: Path) -> None:
    """Print versions, and which backends run here, or why they do not."""
    from .info import describe

    for line in describe(cache):
        click.echo(line)
