"""Read the columns of a table: numbers, dates, categories, text or vectors."""

import warnings
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from .._table_files import Reading, as_numbers, as_text, is_missing, number_of

if TYPE_CHECKING:
    import pandas as pd

Type = Literal[
    "number", "date", "category", "text", "short text", "vector", "list", "empty", "other"
]
TYPES = ("number", "date", "category", "text")  # what --type takes
STRINGS = ("category", "text", "short text")
GRAPH = "jsem_pyg.training.fit clusters the nodes of a graph that have features"

_WORDS_OF_PROSE = 5  # on average, which names, places and categories hardly have
_MOST_CATEGORIES = 50
_NEARLY = 0.8  # of the cells are numbers, in a column that is probably meant to hold numbers


class Column(NamedTuple):
    """Holds a column of N cells as it was read."""

    name: str
    type: str  # one of `Type`
    # Numbers [N] (of dates the days since 1970, NaN: missing), vectors [N, D] or a list of N texts.
    values: Any
    form: str = ""  # of dates


def read_column(cells: "pd.Series", reading: Reading, type: str = "", form: str = "") -> Column:
    """Read the cells of a column as `type`, or as the type that all of them have."""
    name, type = str(cells.name), type or _type_of(cells, reading)
    if type == "number":
        return Column(name, type, as_numbers(cells, reading))
    if type == "date":
        form = form or _date_format(cells)
        return Column(name, type, _as_days(cells, form), form)
    if type == "vector":
        return Column(name, type, _stacked(cells))
    if type in ("list", "other"):
        return Column(name, type, None)
    for row, cell in enumerate(cells):
        if isinstance(cell, list | tuple | dict | np.ndarray):
            raise ValueError(
                f"Expected text in the column {name!r} (got a {cell.__class__.__name__} in row "
                f"{row})."
            )
    return Column(name, type, as_text(cells))


def _type_of(cells: "pd.Series", reading: Reading) -> Type:
    """Return the type that all cells have, apart from the empty ones."""
    from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

    if is_datetime64_any_dtype(cells):
        return "date"
    if is_numeric_dtype(cells) and not is_bool_dtype(cells):
        return "number" if cells.notna().any() else "empty"
    if holds_lists(cells):
        known = cells.dropna()
        sizes = {len(cell) if np.ndim(cell) == 1 else -1 for cell in known}
        are_numbers = known.map(lambda cell: np.asarray(cell).dtype.kind in "fiu").all()
        return "vector" if len(sizes) == 1 and -1 not in sizes and are_numbers else "list"
    known = cells[~is_missing(cells)]
    if known.empty:
        return "empty"
    if known.map(lambda cell: isinstance(cell, dict | bytes)).any():
        return "other"
    if not np.isnan(as_numbers(known, reading)).any():
        return "number"
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


def _stacked(cells: "pd.Series") -> np.ndarray:
    """Stack vectors [N, D], NaN where there is none; in float32 where the file has that."""
    sizes = {np.size(cell) for cell in cells.dropna()}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(
            f"Expected {cells.name!r} to hold vectors of one length (got {sorted(sizes)[:5]})."
        )
    none = np.full(sizes.pop(), np.nan, np.float32)
    try:
        x = np.stack([cell if np.shape(cell) == none.shape else none for cell in cells])
        return x.astype(np.float32 if x.dtype in (np.float16, np.float32) else np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"Expected {cells.name!r} to hold vectors of numbers: {error}") from error


def _date_format(cells: "pd.Series") -> str:
    """Return the format that most cells are dates in."""
    from pandas.tseries.api import guess_datetime_format

    first = str(next(iter(cells[~is_missing(cells)]), ""))
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
        cells = cells.astype(object).where(~is_missing(cells), None).map(str, "ignore")
    dates = pd.to_datetime(cells, format=form, errors="coerce", utc=True)
    days: np.ndarray = ((dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(float)
    return days


def check_there(table: "pd.DataFrame", names: list[str]) -> None:
    """Raise a ValueError that names a missing column, and the one that is spelled like it."""
    for name in names:
        if name not in table.columns:
            lowered = {each.lower(): each for each in reversed(table.columns)}
            near = get_close_matches(name.lower(), lowered, n=1)
            hint = f" Did you mean {lowered[near[0]]!r}?" if near else ""
            listed = ", ".join(map(repr, table.columns))
            raise ValueError(f"Expected a column {name!r} (got a file with {listed}).{hint}")


def check_no_numbers(column: Column, reading: Reading) -> None:
    """Raise a ValueError if texts are made of numbers that were not read as such."""
    import pandas as pd

    cells = pd.Series(column.values, dtype=object)
    cells = cells[~is_missing(cells)]
    odd = cells[np.isnan(as_numbers(cells, reading))]
    cells = cells[~cells.str.startswith("#")]
    parts = cells.str.removesuffix("%").str.split(r"[\s;,|]+")
    made_of_numbers = parts.map(lambda each: not any(map(np.isnan, map(number_of, each))))
    if len(odd) == 0 or len(cells) == 0 or made_of_numbers.mean() < _NEARLY:
        return
    raise ValueError(
        f"Expected text in the column {column.name!r} (got {int(made_of_numbers.sum()):,} of "
        f"{len(cells):,} cells that are made of numbers, and {odd.iloc[0]!r} in row "
        f"{odd.index[0]}, counted from 0). To fix this, say how the file is written by --decimal, "
        "--thousands, --delimiter, --header (2 lines, or 0 for none) or --comment; or what the "
        f"cells are: --type {column.name}=number (others are missing), =category or =text. If they "
        f"are edges, {GRAPH}."
    )
