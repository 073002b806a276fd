"""Read the file of a map, and say what is clustered of it, and what is not. No torch yet."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .._table_files import Reading, read_rows
from .choice import Choice, choose_columns
from .content import Content, Labels, read_documents, read_labels, read_vectors
from .steps import Steps, counted

if TYPE_CHECKING:
    import pandas as pd


class MapSettings(NamedTuple):
    """Holds the file and all options of `jsem-pyg map` that its result depends on."""

    file: Path
    reading: Reading
    command: Sequence[str]  # what was typed
    columns: Sequence[str]
    types: Mapping[str, str]
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
    """Holds a file that was read."""

    table: "pd.DataFrame"
    choice: Choice
    content: Content
    labels: Labels | None


def read_source(settings: MapSettings, steps: Steps) -> Source:
    """Read the file of a map, and print what was read, guessed and left out."""
    with steps.step("reading"):
        reading, labels = settings.reading, settings.labels
        table = read_rows(settings.file, reading)
        choice = choose_columns(table, reading, settings.columns, labels, settings.types)
        if choice.kind == "texts":
            content = read_documents(choice.points)
        else:
            impute = settings.missing == "impute"
            content = read_vectors(choice.points, choice.texts, impute=impute)
        classes = None if labels is None else read_labels(table[labels])
    source = Source(table, choice, content, classes)
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
    plural = {"number": "numbers", "date": "dates", "category": "categories", "vector": "vectors"}
    listed: dict[str, list[str]] = {}
    for column in choice.points:
        listed.setdefault(plural.get(column.type, "text"), []).append(column.name)
    what = "; ".join(f"{kind} of: {', '.join(names)}" for kind, names in listed.items())
    guess = " (guessed; --column says otherwise)" if choice.guessed else ""
    steps.note(f"{counted(len(content.point), 'row')}; clustered is {what}{guess}.")
    if choice.left_out:
        reasons = (f"{name} ({why})" for name, why in choice.left_out.items())
        steps.note(f"Columns left out: {', '.join(reasons)}.")
    if "dates" in listed:
        steps.note("Dates are compared by the days between them.")
    if choice.texts:
        names = ", ".join(column.name for column in choice.texts)
        steps.note(f"Clusters are named by text of: {names}.")
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
    again = int(content.sizes.sum()) - len(content.sizes)
    if again:
        rows, have = counted(again, "row holds", "rows hold"), "has" if again == 1 else "have"
        steps.note(f"{rows} the same as one before, and {have} its cluster.")
