"""The file of a map, read and said: what is clustered of it, and what is not. No torch yet."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .._table_files import Reading, read_rows
from .columns import Choice, choose_columns
from .content import Content, Labels, read_content, read_labels
from .steps import Steps, counted

if TYPE_CHECKING:
    import pandas as pd


class MapSettings(NamedTuple):
    """The file, and all options of `jsem-pyg map`."""

    file: Path
    reading: Reading
    command: Sequence[str]  # what was typed
    columns: Sequence[str]
    types: Mapping[str, str]
    texts: Sequence[str]
    labels: str | None
    missing: str
    clusters: int | str
    neighbors: int
    metric: str
    scale: str
    words: float
    layout: str
    seed: int


class Source(NamedTuple):
    """A file that was read."""

    table: "pd.DataFrame"
    choice: Choice
    content: Content
    labels: Labels | None


def read_source(settings: MapSettings, steps: Steps) -> Source:
    """Read the file of a map, and print what was read, guessed and left out."""
    with steps.step("reading"):
        reading, labels = settings.reading, settings.labels
        table = read_rows(settings.file, reading)
        choice = choose_columns(
            table, reading, settings.columns, settings.texts, labels, settings.types
        )
        content = read_content(table, choice, reading, impute=settings.missing == "impute")
        source = Source(
            table, choice, content, None if labels is None else read_labels(table, labels)
        )
    _show(source, steps)
    points = content.point.max() + 1
    if isinstance(settings.clusters, int) and settings.clusters > points:
        raise ValueError(
            "Expected at most as many --clusters as there are rows that differ (got "
            f"{settings.clusters} for {points})."
        )
    return source


def _show(source: Source, steps: Steps) -> None:
    choice, content = source.choice, source.content
    listed, plural = [], {"category": "categories"}
    kinds = dict.fromkeys(choice.types.values()) if choice.kind == "table" else [choice.kind]
    for kind in kinds:
        names = [name for name in choice.points if choice.types[name] == kind] or choice.points
        what = {"texts": "text", "vectors": "vectors"}.get(kind) or plural.get(kind, f"{kind}s")
        listed.append(f"{what} of: {', '.join(names)}")
    guess = " (guessed; --column says otherwise)" if choice.guessed else ""
    rows = counted(len(content.point), "row")
    steps.note(f"{rows}; clustered is {'; '.join(listed)}{guess}.")
    if choice.left_out:
        reasons = (f"{name} ({why})" for name, why in choice.left_out.items())
        steps.note(f"Columns left out: {', '.join(reasons)}.")
    if choice.kind == "table" and "date" in kinds:
        steps.note("Dates are compared by the days between them.")
    if choice.kind != "texts" and choice.texts:
        steps.note(f"Clusters are named by text of: {', '.join(choice.texts)}.")
    if content.missing:
        lacking = Counter(name for names in content.missing.values() for name in names.split(", "))
        fix = "" if choice.kind == "texts" else "; --missing impute takes the median in its place"
        steps.note(
            f"{counted(len(content.missing), 'row is', 'rows are')} left out, in no cluster, and "
            "listed in left_out.csv. Missing is "
            f"{', '.join(f'{name} in {many:,}' for name, many in lacking.items())}{fix}."
        )
    if content.filled:
        filled = ", ".join(f"{count:,} of {name}" for name, count in content.filled.items())
        steps.note(f"Missing numbers are the median of their column (--missing): {filled}.")
    if choice.kind == "texts" and len(content.sizes) < content.sizes.sum():
        again = int(content.sizes.sum()) - len(content.sizes)
        rows, have = counted(again, "row holds", "rows hold"), "has" if again == 1 else "have"
        steps.note(f"{rows} the same as one before, and {have} its cluster.")
