"""Choose the columns of a table that are clustered: named by the user, or guessed and shown."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from .._table_files import Reading
from .columns import GRAPH, STRINGS, Column, check_no_numbers, check_there, read_column

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["texts", "table", "vectors"]

_MOST_MISSING = 0.5  # of the numbers of a column that is taken unasked
_INDEX = ("Unnamed: 0", "index")  # what pandas calls row names that have no name themselves
_ID = re.compile(r"(?i:(^|[\W_])id([\W_]|$))|[a-z]I[dD]$")
_ENDS = (("source", "target"), ("from", "to"), ("src", "dst"), ("fromnodeid", "tonodeid"))
_REASONS = {
    "number": "numbers",
    "date": "dates; --column takes them as numbers of days",
    "category": "categories",
    "short text": "short texts",
    "list": "lists of texts, or of different lengths",
}


class Choice(NamedTuple):
    """Holds the columns that were chosen, and whether they were guessed."""

    points: list[Column]  # what is clustered: columns of text, of a table, or one of vectors
    texts: list[Column]  # what names the clusters of vectors or of a table
    kind: Kind
    left_out: dict[str, str]  # the other columns, each with the reason; none if they were named
    guessed: bool


def choose_columns(
    table: "pd.DataFrame",
    reading: Reading,
    points: Sequence[str] = (),
    labels: str | None = None,
    types: Mapping[str, str] | None = None,
) -> Choice:
    """Take the columns that are named, or guess: never the one of the labels.

    A column of vectors comes first, then text (a column of that name, else all that hold
    sentences), then all numbers and categories, except identifiers and columns that are mostly
    empty, then the longest of the columns of short texts.
    """
    types = types or {}
    if len(table) == 0:
        raise ValueError("Expected a file with rows (got none).")
    check_there(table, [*points, *filter(None, [labels]), *types])
    if labels is not None and labels in points:
        raise ValueError(
            f"Expected the labels not to be among what is clustered (got {labels!r} for both)."
        )
    found = {
        name: read_column(table[name], reading, types.get(name, ""))
        for name in table.columns
        if name != labels
    }
    prose = _prose(found)
    chosen = list(dict.fromkeys(points)) or _guess(found, prose)
    is_sure = points or chosen == prose or found[chosen[0]].type == "vector"
    for name in chosen if is_sure else found:
        if found[name].type in STRINGS and name not in types:
            check_no_numbers(found[name], reading)
    kind = _kind(chosen, found)
    left_out = (
        {} if points else {name: _reason(found[name]) for name in found if name not in chosen}
    )
    columns = [found[name] for name in chosen]
    texts = [] if kind == "texts" else [found[name] for name in prose]
    return Choice(columns, texts, kind, left_out, not points)


def _prose(found: Mapping[str, Column]) -> list[str]:
    """Return the column that is called text, or all columns of sentences."""
    called = [name for name in found if name.lower() == "text" and found[name].type in STRINGS]
    return called[:1] or [name for name, each in found.items() if each.type == "text"]


def _guess(found: Mapping[str, Column], prose: list[str]) -> list[str]:
    """Guess the columns that are clustered."""
    vectors = [name for name, each in found.items() if each.type == "vector"]
    named = [name for name in vectors if name in ("x", "embeddings")]
    if len(vectors) == 1 or named:
        return (named or vectors)[:1]
    if len(vectors) > 1:
        raise ValueError(
            f"Expected one column of vectors (got {', '.join(map(repr, vectors))}). To fix this, "
            "say which by --column."
        )
    if prose:
        return prose
    first = list(found)[:2]
    if tuple(name.lower().replace(" ", "") for name in first) in _ENDS:
        raise ValueError(
            f"Expected rows to cluster (got columns {' and '.join(map(repr, first))}: an edge "
            f"list). A graph without features has none; {GRAPH}. To cluster these rows all the "
            "same, name the columns by --column."
        )
    numbers = [name for name, each in found.items() if each.type == "number" and not _unfit(each)]
    fit = [name for name, each in found.items() if each.type == "category" or name in numbers]
    short = [name for name, each in found.items() if each.type == "short text"]
    if fit and (not short or (numbers and len(fit) > 1)):
        return fit
    if short:
        return [max(short, key=lambda name: sum(map(len, found[name].values)))]
    raise ValueError(
        "Expected a column of text or of vectors, or columns of numbers or categories (got "
        f"{_listed(list(found), found) or 'none'}). To fix this, name yours by --column."
    )


def _unfit(column: Column) -> str:
    """Say why a column of numbers is not clustered unasked; nothing if it is."""
    numbers = column.values
    known = numbers[~np.isnan(numbers)]
    if len(known) < _MOST_MISSING * len(numbers):
        return f"missing in {len(numbers) - len(known):,} of {len(numbers):,} rows"
    if (known == known[0]).all():
        return "the same in all rows"
    if (known == np.round(known)).all():
        if _ID.search(column.name):
            return "an identifier"
        is_index = column.name in _INDEX and len(np.unique(known)) == len(known)
        if is_index or (np.diff(numbers) == 1).all():
            return "row numbers"
    return ""


def _reason(column: Column) -> str:
    """Say why a column is not clustered."""
    unfit = _unfit(column) if column.type == "number" else ""
    return unfit or _REASONS.get(column.type, column.type)


def _kind(chosen: list[str], found: Mapping[str, Column]) -> Kind:
    """Return the kind of columns that are put together, or raise a ValueError."""
    types = {found[name].type for name in chosen}
    if types == {"vector"} and len(chosen) == 1:
        return "vectors"
    is_text = types - {"empty"} and types <= {*STRINGS, "empty"}
    if is_text and not (types == {"category"} and len(chosen) > 1):
        return "texts"
    if types <= {"number", "date", "category"}:
        return "table"
    if "list" in types and "text" in found:
        advice = "--column text"
    else:
        advice = "--column takes others, and --type says what one is: a number may be a text"
    raise ValueError(
        "Expected columns of text, or of numbers, dates and categories, or one of vectors (got "
        f"{_listed(chosen, found)}). To fix this, {advice}."
    )


def _listed(names: list[str], found: Mapping[str, Column]) -> str:
    return ", ".join(f"{name!r} ({found[name].type})" for name in names)
