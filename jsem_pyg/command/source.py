"""The file of a map, read and said: what is clustered of it, and what is not. No torch yet."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .._table_files import Reading, read_rows
from .columns import Choice, choose_columns
from .content import Content, Labels, read_content, read_labels
from .steps import Steps, counted

if TYPE_CHECKING:
    import pandas as pd

_MOST_NAMED = 30  # columns in a line


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
    guess = " (guessed; --column says otherwise)" if choice.guessed else ""
    by_type: dict[str, list[str]] = {}
    for name in choice.points:
        what = {"category": "categories", "vector": "vectors"}.get(choice.types[name])
        what = what or ("text" if choice.kind == "texts" else f"{choice.types[name]}s")
        by_type.setdefault("text" if choice.kind == "texts" else what, []).append(name)
    listed = "; ".join(f"{what} of: {', '.join(names)}" for what, names in by_type.items())
    rows = counted(len(content.point), "row")
    steps.note(f"{rows}; clustered is {listed}{guess}.")
    if choice.left_out:
        reasons = [f"{name} ({why})" for name, why in choice.left_out.items()]
        more = len(reasons) - _MOST_NAMED
        reasons = [*reasons[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])]
        steps.note(f"Columns left out: {', '.join(reasons)}.")
    if "date" in choice.types.values() and choice.kind == "table":
        steps.note("Dates are compared by the days between them.")
    if choice.kind != "texts" and choice.texts:
        steps.note(f"Clusters are named by text of: {', '.join(choice.texts)}.")
    if content.missing:
        count, lacking = len(content.missing), dict[str, int]()
        for names in content.missing.values():
            for name in names.split(", "):
                lacking[name] = lacking.get(name, 0) + 1
        listed = ", ".join(f"{name} in {many:,}" for name, many in lacking.items())
        fix = "" if choice.kind == "texts" else "; --missing impute takes the median in its place"
        steps.note(
            f"{counted(count, 'row is', 'rows are')} left out, in no cluster, and listed in "
            f"left_out.csv. Missing is {listed}{fix}."
        )
    if content.filled:
        filled = ", ".join(f"{count:,} of {name}" for name, count in content.filled.items())
        steps.note(f"Missing numbers are the median of their column (--missing): {filled}.")
    if choice.kind == "texts" and content.texts is not None:
        again = len(content.point) - len(content.missing) - len(content.texts)
        if again:
            rows = counted(again, "row holds", "rows hold")
            have = "has" if again == 1 else "have"
            steps.note(f"{rows} the same as one before, and {have} its cluster.")
