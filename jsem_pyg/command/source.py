"""Read and check the file of a map, before anything that takes long to import is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._table_files import Reading, read_rows
from .columns import Choice, choose_columns, is_of_few, number_of_nines
from .content import Content, read_documents, read_labels, read_vectors
from .steps import Steps, counted

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 5
_ROUNDED = 0.002  # of a sum, at most, by which one of rounded numbers is another
_PLURALS = {"number": "numbers", "date": "dates", "category": "categories", "vector": "vectors"}


@dataclass(frozen=True)
class MapSettings:
    """Holds the file and the options of `jsem-pyg map`."""

    file: Path
    reading: Reading
    command: str  # what was typed
    columns: Sequence[str]
    types: Mapping[str, str]
    labels: str | None
    missing: str
    clusters: int | None
    neighbors: int
    metric: str
    scale: str
    words: float
    layout: str
    seed: int


class Source(NamedTuple):
    """Holds a file of N rows as it was read."""

    table: "pd.DataFrame"
    choice: Choice
    content: Content
    codes: np.ndarray | None  # [N] the class of each row, -1 for none
    classes: list[str]


def read_source(settings: MapSettings, steps: Steps) -> Source:
    """Read the file and choose its columns, or raise a ValueError that says what to change."""
    with steps.step("reading"):
        strings = [name for name, type in settings.types.items() if type != "number"]
        labels, decimal = settings.labels, settings.reading.decimal or ""
        table = read_rows(settings.file, settings.reading, [*strings, *filter(None, [labels])])
        if 0 < len(table) < _FEWEST:
            raise ValueError(f"Expected {_FEWEST} rows or more to cluster (got {len(table)}).")
        choice = choose_columns(table, settings.columns, labels, settings.types, decimal)
        if choice.kind == "texts":
            content = read_documents(choice.points)
        else:
            content = read_vectors(choice.points, choice.texts, impute=settings.missing == "impute")
        codes, classes = (None, []) if labels is None else read_labels(table[labels])
    _say(choice, content, not settings.columns, steps)
    if settings.clusters is not None and settings.clusters > content.point.max() + 1:
        raise ValueError(
            "Expected at most as many --clusters as there are rows that differ (got "
            f"{settings.clusters} for {content.point.max() + 1})."
        )
    return Source(table, choice, content, codes, classes)


def _say(choice: Choice, content: Content, is_guessed: bool, steps: Steps) -> None:
    """Print what was read, guessed and left out."""
    listed: dict[str, list[str]] = {}
    for column in choice.points:
        listed.setdefault(_PLURALS.get(column.type, "text"), []).append(column.name)
    what = "; ".join(f"{kind} of: {', '.join(names)}" for kind, names in listed.items())
    guess = " (guessed; --column says otherwise)" if is_guessed else ""
    steps.note(f"{counted(len(content.point), 'row')}; clustered is {what}{guess}.")
    if choice.left_out:
        reasons = (f"{name} ({why})" for name, why in choice.left_out.items())
        steps.note(f"Columns left out: {', '.join(reasons)}.")
    if read := [f"{each.name} ({each.note})" for each in choice.points if each.note]:
        steps.note(f"Read from what is written: {', '.join(read)}.")
    if few := [each.name for each in choice.points if is_of_few(each)]:
        names = f"of {', '.join(few)}, if they name categories, not amounts"
        steps.note(f"Few whole numbers: --type NAME=category makes categories {names}.")
    if odd := [(each.name, found) for each in choice.points if (found := number_of_nines(each))]:
        some = ", ".join(f"{x:g} in {count:,} rows of {name}" for name, (x, count) in odd)
        steps.note(f"Far from all other numbers: {some}. If they mean missing, empty these cells.")
    if "dates" in listed:
        steps.note("Dates are compared by the days between them.")
    if choice.texts:
        names = ", ".join(column.name for column in choice.texts)
        steps.note(f"Clusters are named by text of: {names}.")
    numbers = [each.values for each in choice.points if each.type == "number"]
    kept = np.flatnonzero(content.point >= 0)
    for row, which in ((kept[0], "first"), (kept[-1], "last")) if numbers else ():
        sums = [x[row] and np.isclose(np.nansum(x), 2 * x[row], _ROUNDED, 0) for x in numbers]
        if 2 * sum(sums) >= len(sums):
            steps.note(f"The {which} row is the sum of the others: if it is a total, take it away.")
    lacking = ", ".join(f"{name} in {count:,}" for name, count in content.missing.items())
    if lacking and content.encoding.fill is not None:
        steps.note(f"Missing numbers are the median of their column (--missing): {lacking}.")
    if left_out := int((content.point < 0).sum()):
        fix = "" if choice.kind == "texts" else "; --missing impute takes the median in its place"
        why = "all that is clustered" if content.encoding.fill is not None else f"{lacking}{fix}"
        rows = counted(left_out, "row is", "rows are")
        steps.note(f"{rows} left out, in no cluster. Missing is {why}.")
    again = int(content.sizes.sum()) - len(content.sizes)
    if again:
        rows, have = counted(again, "row holds", "rows hold"), "has" if again == 1 else "have"
        steps.note(f"{rows} the same as one before, and {have} its cluster.")
