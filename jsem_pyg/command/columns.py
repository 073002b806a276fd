"""Read the columns of a table, and choose those that are clustered: named by the user, or guessed.

Types are those that pandas reads: numbers, dates, categories, texts, and vectors.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from .._table_files import as_text

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["texts", "table", "vectors"]

STRINGS = ("category", "text", "short text")

_WORDS_OF_PROSE = 5  # on average, which names, places and categories hardly have
_MOST_CATEGORIES = 50
_MOST_MISSING = 0.5  # of the numbers of a column that is taken unasked
_NUMERIC = r"#?[\d\s.,;:|%+-]*\d[\d\s.,;:|%+-]*"
_NEARLY = 0.8  # of the cells are made of numbers, in a column that is probably meant to be one
_INDEX = ("Unnamed: 0", "index")  # what pandas calls row names that have no name themselves
_ID = re.compile(r"(?i:(^|[\W_])id([\W_]|$))|[a-z]I[dD]$")
_REASONS = {
    "number": "numbers",
    "date": "dates; --column takes them as numbers of days",
    "category": "categories",
    "short text": "short texts",
    "other": "neither numbers nor texts, nor vectors of one length",
}


class Column(NamedTuple):
    """Holds a column of N cells as it was read."""

    name: str
    type: str  # "number", "date", "category", "text", "short text", "vector", "empty" or "other"
    # Numbers [N] (of dates the days since 1970, NaN: missing), vectors [N, D] or a list of N texts.
    values: Any
    form: str = ""  # of dates


class Choice(NamedTuple):
    """Holds the columns that were chosen."""

    points: list[Column]  # what is clustered: columns of text, of a table, or one of vectors
    texts: list[Column]  # what names the clusters of vectors or of a table
    kind: Kind
    left_out: dict[str, str]  # the other columns, each with the reason; none if they were named


def read_column(cells: "pd.Series", type: str = "", form: str = "") -> Column:
    """Read the cells of a column as `type`, or as the type that all of them have."""
    name, type = str(cells.name), type or _type_of(cells)
    if type == "number":
        return Column(name, type, _numbers(cells))
    if type == "date":
        form = form or _date_format(cells)
        return Column(name, type, _as_days(cells, form), form)
    if type == "vector":
        return Column(name, type, _stacked(cells))
    if type == "other":
        return Column(name, type, None)
    if holds_lists(cells):
        raise ValueError(f"Expected text in the column {name!r} (got lists or arrays).")
    return Column(name, type, as_text(cells))


def _type_of(cells: "pd.Series") -> str:
    """Return the type that all cells have, apart from the missing ones."""
    from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

    known = cells.dropna()
    if known.empty:
        return "empty"
    if is_datetime64_any_dtype(cells):
        return "date"
    if is_numeric_dtype(cells) and not is_bool_dtype(cells):
        return "number"
    if holds_lists(known):
        shapes = {np.shape(cell) if holds_numbers(cell) else () for cell in known}
        return "vector" if len(shapes) == 1 and len(shapes.pop()) == 1 else "other"
    if known.map(lambda cell: isinstance(cell, dict | bytes)).any():
        return "other"
    texts = known.astype(str)
    if not np.isnan(_as_days(texts, _date_format(texts))).any():
        return "date"
    if texts.str.split().str.len().mean() >= _WORDS_OF_PROSE:
        return "text"
    few = min(_MOST_CATEGORIES, len(texts) // 2)
    return "category" if texts.nunique() <= few else "short text"


def holds_lists(cells: "pd.Series") -> bool:
    """Return True if there are lists or arrays in the cells."""
    return bool(cells.map(lambda cell: isinstance(cell, list | tuple | np.ndarray)).any())


def holds_numbers(cell: Any) -> bool:
    """Return True if a cell is a list or an array of numbers."""
    try:
        return np.asarray(cell).dtype.kind in "fiu"
    except ValueError:  # lists of different lengths
        return False


def _numbers(cells: "pd.Series") -> np.ndarray:
    """Return the numbers [N], NaN where a cell is none, as --type may say of any column."""
    import pandas as pd

    numbers: np.ndarray = pd.to_numeric(cells, errors="coerce").to_numpy(float, na_value=np.nan)
    return numbers


def _stacked(cells: "pd.Series") -> np.ndarray:
    """Stack vectors [N, D], NaN where there is none; in float32 where the file has that."""
    sizes = {np.size(cell) for cell in cells.dropna()}
    if len(sizes) != 1 or not cells.dropna().map(holds_numbers).all():
        raise ValueError(
            f"Expected {cells.name!r} to hold vectors of numbers, of one length (got the lengths "
            f"{sorted(sizes)[:5]})."
        )
    none = np.full(sizes.pop(), np.nan, np.float32)
    x = np.stack([none if np.ndim(cell) == 0 else np.asarray(cell) for cell in cells])
    return x.astype(np.float32 if x.dtype in (np.float16, np.float32) else np.float64)


def _date_format(cells: "pd.Series") -> str:
    """Return the format that most cells are dates in."""
    from pandas.tseries.api import guess_datetime_format

    first = str(next(iter(cells.dropna()), ""))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of days that come first
        found = [guess_datetime_format(first, dayfirst=day) for day in (False, True)]
    formats = ["ISO8601", *filter(None, found)]
    return max(formats, key=lambda form: np.isfinite(_as_days(cells, form)).sum())


def _as_days(cells: "pd.Series", form: str) -> np.ndarray:
    """Return the days since 1970 [N], NaN where a cell is no date."""
    import pandas as pd
    from pandas.api.types import is_datetime64_any_dtype

    if not is_datetime64_any_dtype(cells):
        cells = cells.astype(object).map(str, "ignore")
    dates = pd.to_datetime(cells, format=form, errors="coerce", utc=True)
    days: np.ndarray = ((dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(float)
    return days


def check_there(table: "pd.DataFrame", names: Sequence[str]) -> None:
    """Raise a ValueError unless the table has rows, and columns of these names."""
    if len(table) == 0:
        raise ValueError("Expected a file with rows (got none).")
    for name in names:
        if name not in table.columns:
            listed = ", ".join(map(repr, table.columns))
            raise ValueError(f"Expected a column {name!r} (got a file with {listed}).")


def choose_columns(
    table: "pd.DataFrame",
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
    check_there(table, [*points, *filter(None, [labels]), *types])
    if labels is not None and labels in points:
        raise ValueError(
            f"Expected the labels not to be among what is clustered (got {labels!r} for both)."
        )
    found = {
        name: read_column(table[name], types.get(name, ""))
        for name in table.columns
        if name != labels
    }
    called = [name for name in found if name.lower() == "text" and found[name].type in STRINGS]
    prose = called[:1] or [name for name, each in found.items() if each.type == "text"]
    chosen = list(dict.fromkeys(points)) or _guess(found, prose)
    for name in chosen:
        if found[name].type in STRINGS and name not in types:
            _check_no_numbers(found[name])
    kind = _kind(chosen, found)
    left_out = {name: _reason(found[name]) for name in found if name not in chosen}
    columns = [found[name] for name in chosen]
    texts = [] if kind == "texts" else [found[name] for name in prose]
    return Choice(columns, texts, kind, {} if points else left_out)


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


def _check_no_numbers(column: Column) -> None:
    """Raise a ValueError if texts are made of numbers that pandas did not read as such."""
    cells = [cell for cell in map(str.strip, column.values) if cell]
    made_of_numbers = sum(re.fullmatch(_NUMERIC, cell) is not None for cell in cells)
    if cells and made_of_numbers >= _NEARLY * len(cells):
        raise ValueError(
            f"Expected text in the column {column.name!r} (got {made_of_numbers:,} of "
            f"{len(cells):,} cells that are made of numbers, such as {cells[0]!r}). To fix this, "
            "say how the file is written by --decimal, --delimiter or --header 0 (for none); or "
            f"what the cells are: --type {column.name}=number (others are missing), =category or "
            "=text."
        )


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
    raise ValueError(
        "Expected columns of text, or of numbers, dates and categories, or one of vectors (got "
        f"{_listed(chosen, found)}). To fix this, --column takes others, and --type says what one "
        "is: a number may be a text."
    )


def _listed(names: list[str], found: Mapping[str, Column]) -> str:
    return ", ".join(f"{name!r} ({found[name].type})" for name in names)
