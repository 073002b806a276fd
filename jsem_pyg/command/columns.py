"""The columns of a table that are clustered: named by the user, or guessed and shown."""

import re
import warnings
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from .._table_files import Reading, as_numbers, is_missing, number_of

if TYPE_CHECKING:
    import pandas as pd

Type = Literal[
    "number", "date", "category", "text", "short text", "vector", "list", "empty", "other"
]
Kind = Literal["texts", "table", "vectors"]
TYPES = ("number", "date", "category", "text")  # what --type takes

_STRINGS = ("category", "text", "short text")
_WORDS_OF_PROSE = 5  # on average, which names, places and categories hardly have
_MOST_CATEGORIES = 50
_NEARLY = 0.8  # of the cells are numbers, in a column that is probably meant to hold numbers
_MOST_MISSING = 0.5  # of the numbers of a column that is taken unasked
_INDEX = ("Unnamed: 0", "index")  # what pandas calls row names that have no name themselves
_ID = re.compile(r"(?i:(^|[\W_])id([\W_]|$))|[a-z]I[dD]$")
_ENDS = (("source", "target"), ("from", "to"), ("src", "dst"), ("fromnodeid", "tonodeid"))
_EDGES = 0.6  # of the numbers of such lists are integers, if there are weights, too
_LOOKED_AT = 10_000  # lines
_GRAPH = "jsem_pyg.training.fit clusters the nodes of a graph that have features"


class Choice(NamedTuple):
    """The columns that were chosen, and whether they were guessed."""

    points: list[str]  # what is clustered: columns of text, of a table, or one of vectors
    texts: list[str]  # what names the clusters; the same, where text is clustered
    kind: Kind
    types: dict[str, Type]  # of the columns that are clustered
    left_out: dict[str, str]  # the other columns, each with the reason; none if they were named
    guessed: bool


def choose_columns(
    table: "pd.DataFrame",
    reading: Reading,
    points: Sequence[str] = (),
    texts: Sequence[str] = (),
    labels: str | None = None,
    types: Mapping[str, str] | None = None,
) -> Choice:
    """Take the columns that are named, or guess: never the one of the labels.

    A column of vectors comes first, then text (a column of that name, else all that hold
    sentences), then all numbers and categories, except identifiers and columns that are mostly
    empty, then the longest of the columns of short texts.
    """
    if len(table) == 0:
        raise ValueError("Expected a file with rows (got none).")
    check_there(table, [*points, *texts, *([] if labels is None else [labels]), *(types or ())])
    if labels is not None and labels in (*points, *texts):
        raise ValueError(
            f"Expected the labels not to be among what is clustered (got {labels!r} for both)."
        )
    found = {name: type_of(table[name], reading) for name in table.columns if name != labels}
    found |= types or {}  # type: ignore[arg-type]  # the command has checked them
    chosen = list(dict.fromkeys(points)) or _guess_points(table, found, reading)
    is_sure = points or chosen == _prose(found) or found[chosen[0]] == "vector"
    for name in chosen if is_sure else found:
        if found[name] in _STRINGS and name not in (types or ()):
            _check_no_numbers(table[name], reading)
    kind = _kind(chosen, found)
    if kind == "texts" and texts:
        raise ValueError(
            "Expected no --text where text is clustered: it names the clusters (got "
            f"{', '.join(map(repr, texts))} besides {', '.join(map(repr, chosen))})."
        )
    others = [] if points else [name for name in found if name not in chosen]
    left_out = {name: _reason(table[name], found[name], reading) for name in others}
    named = chosen if kind == "texts" else list(texts) or _prose(found)
    return Choice(chosen, named, kind, {name: found[name] for name in chosen}, left_out, not points)


def check_there(table: "pd.DataFrame", names: Sequence[str]) -> None:
    """Raise a ValueError that names a missing column, and the one that is spelled like it."""
    for name in names:
        if name not in table.columns:
            lowered = {each.lower(): each for each in reversed(table.columns)}
            near = get_close_matches(name.lower(), lowered, n=1)
            hint = f" Did you mean {lowered[near[0]]!r}?" if near else ""
            listed = ", ".join(map(repr, table.columns))
            raise ValueError(f"Expected a column {name!r} (got a file with {listed}).{hint}")


def type_of(column: "pd.Series", reading: Reading | None = None) -> Type:
    """The type of the cells of a column that are not empty."""
    from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

    if is_datetime64_any_dtype(column):
        return "date"
    if is_numeric_dtype(column) and not is_bool_dtype(column):
        return "number" if column.notna().any() else "empty"
    if holds_lists(column):
        sizes = {len(cell) if np.ndim(cell) == 1 else -1 for cell in column.dropna()}
        items = column.dropna().map(lambda cell: np.asarray(cell).dtype.kind in "fiu")
        return "vector" if len(sizes) == 1 and -1 not in sizes and items.all() else "list"
    cells = column[~is_missing(column)]
    if cells.empty:
        return "empty"
    if cells.map(lambda cell: isinstance(cell, dict | bytes)).any():
        return "other"
    if not np.isnan(as_numbers(cells, reading)).any():
        return "number"
    cells = cells.astype(str)
    if not np.isnan(as_days(cells, date_format(cells))).any():
        return "date"
    if cells.str.split().str.len().mean() >= _WORDS_OF_PROSE:
        return "text"
    few = min(_MOST_CATEGORIES, len(cells) // 2)
    return "category" if cells.nunique() <= few else "short text"


def holds_lists(column: "pd.Series") -> bool:
    """True if there are lists or arrays in the cells."""
    return bool(column.map(lambda cell: isinstance(cell, list | tuple | np.ndarray)).any())


def date_format(column: "pd.Series") -> str:
    """The format that most cells of a column are dates in."""
    from pandas.tseries.api import guess_datetime_format

    first = next(iter(column[~is_missing(column)]), "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of days that come first
        found = [guess_datetime_format(str(first), dayfirst=day) for day in (False, True)]
    formats = ["ISO8601", *filter(None, found)]
    return max(formats, key=lambda form: np.isfinite(as_days(column, form)).sum())


def as_days(column: "pd.Series", form: str) -> np.ndarray:
    """The dates [N] of a column in days since 1970, NaN where a cell is none."""
    import pandas as pd
    from pandas.api.types import is_datetime64_any_dtype

    if not is_datetime64_any_dtype(column):
        column = column.astype(object).where(~is_missing(column), None).map(str, "ignore")
    dates = pd.to_datetime(column, format=form, errors="coerce", utc=True)
    days: np.ndarray = ((dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(float)
    return days


def _guess_points(table: "pd.DataFrame", types: dict[str, Type], reading: Reading) -> list[str]:
    vectors = [name for name, each in types.items() if each == "vector"]
    named = [name for name in vectors if name in ("x", "embeddings")]
    if len(vectors) == 1 or named:
        return (named or vectors)[:1]
    if len(vectors) > 1:
        raise ValueError(
            f"Expected one column of vectors (got {', '.join(map(repr, vectors))}). To fix this, "
            "say which by --column."
        )
    if prose := _prose(types):
        return prose
    if tuple(name.lower().replace(" ", "") for name in table.columns[:2]) in _ENDS:
        ends = " and ".join(map(repr, table.columns[:2]))
        raise ValueError(
            f"Expected rows to cluster (got columns {ends}: an edge list). A graph without "
            f"features has none; {_GRAPH}. To cluster these rows all the same, name the columns "
            "by --column."
        )
    numbers = [name for name, each in types.items() if each == "number"]
    numbers = [name for name in numbers if not _unfit(table[name], reading)]
    fit = [name for name, each in types.items() if each == "category" or name in numbers]
    short = [name for name, each in types.items() if each == "short text"]
    if fit and (not short or (numbers and len(fit) > 1)):
        return fit
    if short:
        return [max(short, key=lambda name: table[name].astype(str).str.len().mean())]
    listed = ", ".join(f"{name!r} ({each})" for name, each in types.items())
    raise ValueError(
        "Expected a column of text or of vectors, or columns of numbers or categories (got "
        f"{listed or 'none'}). To fix this, name yours by --column."
    )


def _prose(types: Mapping[str, Type]) -> list[str]:
    """The column that is called text, or all columns of sentences."""
    called = [name for name in types if name.lower() == "text" and types[name] in _STRINGS]
    return called[:1] or [name for name, each in types.items() if each == "text"]


def _unfit(column: "pd.Series", reading: Reading) -> str:
    """Why a column of numbers is not clustered unasked; nothing if it is."""
    numbers = as_numbers(column, reading)
    known = numbers[~np.isnan(numbers)]
    if len(known) < _MOST_MISSING * len(numbers):
        return f"missing in {len(numbers) - len(known):,} of {len(numbers):,} rows"
    if (known == known[0]).all():
        return "the same in all rows"
    if (known == np.round(known)).all():
        if _ID.search(str(column.name)):
            return "an identifier"
        is_index = column.name in _INDEX and len(np.unique(known)) == len(known)
        if is_index or (np.diff(numbers) == 1).all():
            return "row numbers"
    return ""


def _reason(column: "pd.Series", kind: Type, reading: Reading) -> str:
    """Why a column is not clustered."""
    said = {
        "number": "numbers",
        "date": "dates; --column takes them as numbers of days",
        "category": "categories",
        "short text": "short texts",
        "list": "lists of texts, or of different lengths",
    }
    return (kind == "number" and _unfit(column, reading)) or said.get(kind, kind)


def _kind(chosen: Sequence[str], types: Mapping[str, Type]) -> Kind:
    """The kind of columns that are put together."""
    found = {types[name] for name in chosen}
    if found == {"vector"} and len(chosen) == 1:
        return "vectors"
    is_text = found - {"empty"} and found <= {*_STRINGS, "empty"}
    if is_text and not (found == {"category"} and len(chosen) > 1):
        return "texts"
    if found <= {"number", "date", "category"}:
        return "table"
    listed = ", ".join(f"{name!r} ({types[name]})" for name in chosen)
    if "list" in found and "text" in types:
        advice = "--column text"
    elif found & {"text", "short text"}:
        number = next(name for name in chosen if types[name] not in _STRINGS)
        advice = f"leave some out, or --type {number}=text embeds its cells as words"
        if "short text" in found:
            short = next(name for name in chosen if types[name] == "short text")
            advice += f", and --type {short}=category compares them as categories"
    else:
        advice = "take others by --column"
    raise ValueError(
        "Expected columns of text, or of numbers, dates and categories, or one of vectors (got "
        f"{listed}). To fix this, {advice}."
    )


def _check_no_numbers(column: "pd.Series", reading: Reading) -> None:
    """Raise a ValueError if texts look like numbers that were not read as such."""
    name = str(column.name)
    cells = column[~is_missing(column)].astype(str)
    lines = cells[~cells.str.startswith("#")]
    comment = "--comment '#'" if name.startswith("#") or len(lines) < len(cells) else ""
    if advice := _as_table(lines, name == "text", comment):
        raise ValueError(f"Expected text in the column {name!r} (got {advice}")
    plain = lines.str.replace(",", "").str.removesuffix("%").map(number_of)
    if len(lines) == 0 or plain.notna().mean() < _NEARLY:
        return
    odd = np.isnan(as_numbers(lines, reading))
    if comment:
        advice = f"{comment} leaves out lines that begin with #"
    elif lines[odd].str.contains(",").all():
        advice = "--decimal ',' or --thousands ',' says what the commas are"
    elif odd[: odd.sum()].all():
        advice = f"--header {1 + odd.sum()} reads a header of so many lines"
    else:
        advice = f"--type {name}=number takes cells that are no numbers for missing"
    bad = np.flatnonzero(column.index == (cells if comment else lines[odd]).index[0])[0]
    raise ValueError(
        f"Expected text in the column {name!r} (got {int(plain.notna().sum()):,} of "
        f"{len(cells):,} cells that look like numbers, and {column.iloc[bad]!r} in row {bad}, "
        f"counted from 0). To fix this: {advice}; --type {name}=text embeds them all the same, and "
        f"--type {name}=category compares them as categories."
    )


def _as_table(lines: "pd.Series", is_file: bool, comment: str) -> str:
    """What lines are that split into equally many numbers, and how to read them, or nothing."""
    lines = lines.iloc[:_LOOKED_AT]
    for mark in (None, ";", ",") if is_file else (None, ";"):
        parts = lines.str.strip().str.split(mark)
        numbers, count = parts.iloc[1:].explode().map(number_of), parts.str.len()
        if len(lines) < 3 or count.nunique() > 1 or count.iloc[0] < 2 or numbers.isna().any():
            continue
        shown = r"\t" if mark is None and "\t" in lines.iloc[-1] else mark or " "
        begins = not any(np.isnan(number_of(each)) for each in parts.iloc[0])
        options = [f"--delimiter '{shown}'", "--header 0" * (begins and is_file), comment]
        advice = f"{count.iloc[0]} numbers in each line). To fix this: "
        advice += f"{' '.join(filter(None, options))} reads them as a table."
        if count.iloc[0] in (2, 3) and (numbers == numbers.round()).mean() > _EDGES:
            advice += f" If they are pairs of nodes, they are an edge list: {_GRAPH}."
        return advice
    return ""
