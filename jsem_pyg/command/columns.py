"""Read the columns of a table, and choose those that are clustered: named by the user, or guessed.

Types are those that pandas reads: numbers, dates, categories, texts, and vectors.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from .._table_files import as_text
from .written_numbers import Written, read_numbers

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["texts", "table", "vectors"]

STRINGS = ("category", "text", "short text")

_WORDS_OF_PROSE = 5  # on average, which names, places and categories hardly have
_SAMPLE = 5_000  # texts whose words are counted
_MOST_CATEGORIES = 50
_DIFFERENT = 0.5  # of the cells of a column of texts; else it has categories
_MOST_MISSING = 0.5  # of the cells of a column that is taken unasked
_NUMERIC = 0.95  # of the cells of a column of numbers, or of dates, that are some
_MIXED = 0.5  # of the cells that are numbers, in a column that probably is one
_FEW = 10  # different numbers, beside words, that may be categories
_FEW_KINDS = 5  # different whole numbers, likewise
_LETTERED = 0.2  # of the cells of a column of texts that have letters
_ROW_NUMBERS = 0.9  # of the rows that count up by one
_INDEX = ("Unnamed: 0", "index")  # what pandas calls row names that have no name themselves
_ID = re.compile(
    r"(?i:(^|[\W_])(u?id|identifier)([\W_]|$)"
    r"|^(subject|individual|participant|patient|respondent)$)|[a-z]I[dD]$"
)
_CODES = re.compile(
    r"(?i)(^|[\W_])(post[\W_]?code|(zip|postal|phone|tel|fax|ssn|isbn|ean|fips)([\W_]?code)?)s?"
    r"([\W_]|$)"
)
_UNIQUE = re.compile(r"(?i)([\W_]|^)(code|key|number|nr|no\.)\W*$|[a-z](Code|Key|Number)$")
_LARGEST = 1e15  # of whole numbers that are counts, not codes
_NAMES = re.compile(
    r"(?i)(^|[\W_])(address|street|url|link|e?mail|path|(file|user)?name)s?([\W_]|$)"
)
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{1,2}|(?<![^\W_])[^\W\d_]+")  # Chinese: two signs
_DAYS = "%m/%d/%Y %d/%m/%Y %m/%d/%y %d/%m/%y %d.%m.%Y %d.%m.%y %m-%d-%Y %d-%m-%Y %d%b%Y %d-%b-%y"
_MONTHS = "%d-%b-%Y|%d %b %Y|%d %B %Y|%b %d, %Y|%B %d, %Y|%b-%d-%Y|%b %d %Y|%B %Y|%b %Y|%m/%Y|%YM%m"
_QUARTER = re.compile(r"(?i)(?:(\d{4})[-/: ]?)?Q([1-4])(?:[-/: ](\d{4}))?")
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_FORMATS = [day + clock for clock in _CLOCKS for day in (*_DAYS.split(), *_MONTHS.split("|"))]
_FORMATS = ["ISO8601", *_FORMATS, "%a %b %d %H:%M:%S %z %Y"]
_PLACE = re.compile(r"\(?([-+]?\d+\.\d+ ?°? ?[NESW]?(\)|\s*[,;/ ]\s*|$)){2}")  # latitude, longitude
_LOOKED_AT = 50  # cells, for the format of dates
_REASONS = {
    "number": "numbers",
    "date": "dates; --column takes them as numbers of days",
    "category": "categories",
    "short text": "short texts",
    "mixed": (
        "made of numbers and signs: --type says what they are, --delimiter, --decimal and "
        "--header 0 how the file is written"
    ),
    "other": "neither numbers nor texts, nor vectors of one length",
}


class Column(NamedTuple):
    """Holds a column of N cells as it was read."""

    name: str
    # "number", "date", "category", "text", "short text", "mixed", "vector", "empty" or "other"
    type: str
    # Numbers [N] (of dates the days since 1970, NaN: missing), vectors [N, D] or a list of N texts.
    values: Any
    form: str = ""  # of dates, and of numbers that are written with more than digits
    note: str = ""  # how the cells were read, or why they are not


class Choice(NamedTuple):
    """Holds the columns that were chosen."""

    points: list[Column]  # what is clustered: columns of text, of a table, or one of vectors
    texts: list[Column]  # what names the clusters of vectors or of a table
    kind: Kind
    left_out: dict[str, str]  # the other columns, each with the reason; none if they were named


def read_column(cells: "pd.Series", type: str = "", form: str = "", decimal: str = "") -> Column:
    """Read the cells of a column as `type`, or as the type that nearly all of them have.

    `form` is of the rows that were mapped, `decimal` what stands before decimals; each may be
    unknown.
    """
    name, type, note = str(cells.name), type or _type_of(cells), ""
    if type in ("number", "strings"):
        written = read_numbers(cells, form or decimal)
        if type == "strings":
            type, note = _type_of_strings(cells, written)
        if type == "number":
            return Column(name, type, written.values, written.form, written.said)
    if type == "date":
        form, note = (form, "") if form else _date_format(cells)
        return Column(name, type, _as_days(cells, form), form, note)
    if type in ("vector", "other"):
        return Column(name, type, _stacked(cells) if type == "vector" else None)
    if holds_lists(cells):
        raise ValueError(f"Expected text in the column {name!r} (got lists or arrays).")
    return Column(name, type, as_text(cells), "", note)


def _type_of(cells: "pd.Series") -> str:
    """Return the type that all cells have, apart from the missing ones."""
    from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

    known = cells.dropna()
    if known.empty:
        return "empty"
    if is_datetime64_any_dtype(cells):
        return "date"
    if is_bool_dtype(cells):
        return "category"
    if is_numeric_dtype(cells):
        days = known.astype(float)  # which small types cannot hold
        is_day = bool(((days % 1 == 0) & days.between(1900_01_01, 2100_12_31)).all())
        return "date" if is_day and np.isfinite(_as_days(known, "%Y%m%d")).all() else "number"
    if holds_lists(known):
        shapes = {np.shape(cell) if holds_numbers(cell) else () for cell in known}
        return "vector" if len(shapes) == 1 and len(shapes.pop()) == 1 else "other"
    return "other" if known.map(type).isin([dict, bytes]).any() else "strings"


def _type_of_strings(cells: "pd.Series", written: Written) -> tuple[str, str]:
    """Return the type of nearly all cells that hold something, and why it is not taken."""
    texts = cells.dropna().astype(str).str.strip()
    texts = texts[texts != ""]
    if texts.empty:
        return "empty", ""
    different = texts.drop_duplicates()
    few = len(different) <= min(_MOST_CATEGORIES, len(texts) // 2)
    if texts.str.fullmatch(r"\d+").all() and different.str.fullmatch(r"0\d+").any():
        return ("category", "") if few else ("mixed", "codes that begin with 0")
    if written.share >= _NUMERIC:
        return "number", ""
    if np.isfinite(_as_days(texts, _date_format(texts)[0])).mean() >= _NUMERIC:
        return "date", ""
    if written.share >= _MIXED and len(np.unique(written.values)) > _FEW:
        return "mixed", f"{written.share:.0%} numbers: --type {cells.name}=number takes these"
    if texts.str.fullmatch(_PLACE).mean() >= _NUMERIC:
        return "mixed", "two numbers in each cell: divide them into two columns of the file"
    sample = different.iloc[:_SAMPLE]
    words = sample.map(lambda text: len(_WORD.findall(text)))
    if not few and (words > 0).mean() < _LETTERED:
        return "mixed", ""
    is_long = words.mean() >= _WORDS_OF_PROSE and not _NAMES.search(str(cells.name))
    if is_long and len(different) >= _DIFFERENT * len(texts):
        return "text", ""
    return ("category", "") if few else ("short text", "texts that repeat" if is_long else "")


def holds_lists(cells: "pd.Series") -> bool:
    """Return True if there are lists or arrays in the cells."""
    return bool(cells.map(lambda cell: isinstance(cell, list | tuple | np.ndarray)).any())


def holds_numbers(cell: Any) -> bool:
    """Return True if a cell is a list or an array of numbers."""
    try:
        return np.asarray(cell).dtype.kind in "fiu"
    except ValueError:  # lists of different lengths
        return False


def _stacked(cells: "pd.Series") -> np.ndarray:
    """Stack vectors [N, D], NaN where there is none; in float32 where the file has that."""
    sizes = {np.size(cell) for cell in cells.dropna()}
    if len(sizes) != 1 or not cells.dropna().map(holds_numbers).all():
        got = sorted(sizes)[:5]
        raise ValueError(f"Expected {cells.name!r} to hold vectors of one length (got {got}).")
    none = np.full(sizes.pop(), np.nan, np.float32)
    x = np.stack([none if np.ndim(cell) == 0 else np.asarray(cell) for cell in cells])
    return x.astype(np.float32 if x.dtype in (np.float16, np.float32) else np.float64)


def _date_format(cells: "pd.Series") -> tuple[str, str]:
    """Return the format that most cells are dates in, and a word where another fits as well."""
    some = cells.dropna().drop_duplicates()
    looked = some.iloc[:: max(1, len(some) // _LOOKED_AT)]
    right = {form: np.isfinite(_as_days(looked, form)).mean() for form in _FORMATS}
    best = [form for form, share in right.items() if share and share == max(right.values())]
    fit = [np.isfinite(_as_days(some, form)).sum() for form in best[:3]]
    both = len(fit) > 1 and fit[0] == fit[1] and {best[0][:2], best[1][:2]} == {"%m", "%d"}
    form = best[int(np.argmax(fit))] if best else _FORMATS[0]
    return form, f"month first: no day above 12 says otherwise, as {some.iloc[0]}" if both else ""


def _as_days(cells: "pd.Series", form: str) -> np.ndarray:
    """Return the days since 1970 [N], NaN where a cell is no date."""
    import pandas as pd
    from pandas.api.types import is_datetime64_any_dtype

    if not is_datetime64_any_dtype(cells):
        cells = cells.astype(object).map(lambda cell: _month_of_quarter(str(cell)), "ignore")
    dates = pd.to_datetime(cells, format=form, errors="coerce", utc=True)
    days: np.ndarray = ((dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(float)
    return days


def _month_of_quarter(cell: str) -> str:
    """Return the first month of a quarter, 1974-04 for 1974Q2; what is none stays."""
    found = _QUARTER.fullmatch(cell.strip())
    year = found and (found[1] or found[3])
    return f"{year}-{3 * int(found[2]) - 2:02}" if found and year else cell


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
    decimal: str = "",
) -> Choice:
    """Take the columns that are named, or guess: never the one of the labels.

    A column of vectors comes first, then text (a column of that name, else all that hold
    sentences, different in most rows), then all numbers and categories, then the longest of the
    columns of short texts. Identifiers, columns that are mostly empty and those that are the same
    in all rows are left out.
    """
    types = types or {}
    check_there(table, [*points, *filter(None, [labels]), *types])
    if labels is not None and labels in points:
        raise ValueError(f"Expected labels not to be clustered (got {labels!r} for both).")
    found = {
        name: read_column(table[name], types.get(name, ""), decimal=decimal)
        for name in table.columns
        if name != labels
    }
    signs = {name: each.form[:1] for name, each in found.items() if each.type == "number"}
    if not decimal and "," in signs.values():
        for name, each in found.items():  # where a point may divide thousands, it does
            if signs.get(name) == ".":
                again = read_column(table[name], "number", decimal=",")
                is_worse = np.isnan(again.values).sum() > np.isnan(each.values).sum()
                found[name] = each if is_worse else again
    fit = {name: each for name, each in found.items() if not _unfit(each)}
    prose = [name for name, each in fit.items() if each.type == "text"]
    called = [name for name, each in fit.items() if name.lower() == "text" and each.type in STRINGS]
    prose = called[:1] or prose
    chosen = list(dict.fromkeys(points)) or _guess(fit, prose) or _guess_strings(found)
    kind = _kind(chosen, found)
    left_out = {name: _reason(found[name]) for name in found if name not in chosen}
    columns = [found[name] for name in chosen]
    texts = [] if kind == "texts" else [found[name] for name in prose]
    return Choice(columns, texts, kind, {} if points else left_out)


def _guess(fit: Mapping[str, Column], prose: list[str]) -> list[str]:
    """Guess which of the columns that say something are clustered; none if there are none."""
    vectors = [name for name, each in fit.items() if each.type == "vector"]
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
    table = [name for name, each in fit.items() if each.type in ("number", "category")]
    short = {name: each for name, each in fit.items() if each.type == "short text"}
    has_numbers = any(fit[name].type == "number" for name in table)
    is_enough = table and (not short or (has_numbers and len(table) > 1))
    return table if is_enough else _longest(short)


def _guess_strings(found: Mapping[str, Column]) -> list[str]:
    """Take texts that are mostly empty where there is nothing else, or say why there is nothing."""
    texts = {name: each for name, each in found.items() if each.type in STRINGS}
    if any(len(set(filter(None, each.values))) > 1 for each in texts.values()):
        return _longest(texts)
    listed = ", ".join(f"{name!r} ({_reason(each)})" for name, each in found.items())
    raise ValueError(
        "Expected a column of text or of vectors, or columns of numbers or categories (got "
        f"{listed or 'none'}). To fix this, name yours by --column."
    )


def _longest(texts: Mapping[str, Column]) -> list[str]:
    """Return the name of the column with the most letters."""
    return sorted(texts, key=lambda name: -sum(map(len, texts[name].values)))[:1]


def _unfit(column: Column) -> str:
    """Say why a column is not clustered unasked; nothing if it is, or if its type says it."""
    if column.type not in (*STRINGS, "number"):
        return ""
    is_number, cells = column.type == "number", np.array(column.values)
    known = cells[np.isfinite(cells)] if is_number else cells[np.char.strip(cells) != ""]
    if len(known) < _MOST_MISSING * len(cells):
        return f"missing in {len(cells) - len(known):,} of {len(cells):,} rows"
    if len(cells) > 1 and len(np.unique(known if is_number else cells)) <= 1:  # "" is a category
        return "the same in all rows"
    if is_number and (known == np.round(known)).all():
        return _unfit_integers(column.name, cells, len(np.unique(known)))
    return ""


def _unfit_integers(name: str, numbers: np.ndarray, different: int) -> str:
    """Say why a column of whole numbers holds no measurements; nothing if it may."""
    is_unique = different == len(numbers)
    if _ID.search(name) or np.abs(numbers[np.isfinite(numbers)]).max() >= _LARGEST:
        return "an identifier"
    if _CODES.search(name) or (is_unique and _UNIQUE.search(name)):
        return "codes; --column takes them as numbers, --type as categories"
    counts_up = is_unique or different > 60  # fewer are minutes, hours, days or weeks
    counts_up &= (np.diff(numbers) == 1).mean() >= _ROW_NUMBERS
    if (name in _INDEX and is_unique) or (counts_up and "rank" not in name.lower()):
        return "row numbers: one more in each row"
    return ""


def is_of_few(column: Column) -> bool:
    """Return True if a column has so few whole numbers that they may be names of kinds."""
    if column.type != "number":
        return False
    different = np.unique(column.values[np.isfinite(column.values)])
    return len(different) <= _FEW_KINDS and bool((different == np.round(different)).all())


def number_of_nines(column: Column) -> tuple[float, int] | None:
    """Return a number such as -999 that stands far from all others, and in how many rows it is."""
    known = column.values[np.isfinite(column.values)] if column.type == "number" else []
    numbers, counts = np.unique(known, return_counts=True)
    for end in (0, -1) if len(numbers) > 2 else ():
        rest, digits = np.delete(numbers, end), f"{abs(numbers[end]):g}".replace(".", "")
        is_far = np.abs(rest - numbers[end]).min() > np.ptp(rest)
        if is_far and set(digits) == {"9"} and min(len(digits), counts[end]) > 1:
            return float(numbers[end]), int(counts[end])
    return None


def _reason(column: Column) -> str:
    """Say why a column is not clustered."""
    note = column.note if column.type in (*STRINGS, "mixed") else ""
    return _unfit(column) or note or _REASONS.get(column.type, column.type)


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
    listed = ", ".join(f"{name!r} ({found[name].type})" for name in chosen)
    raise ValueError(
        "Expected columns of text, or of numbers, dates and categories, or one of vectors (got "
        f"{listed}). To fix this, --column takes others, and --type says what one "
        "is: a number may be a text."
    )
