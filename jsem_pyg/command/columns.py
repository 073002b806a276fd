"""The columns of a table that are clustered: named by the user, or guessed and shown."""

import logging
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from .._table_files import number_of

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

Kind = Literal["texts", "numbers", "vectors", "empty", "other"]

_FEW = 0.5  # of the cells of a column, which looks like one of numbers without them
_WORDS_OF_PROSE = 4  # on average, which names, places and categories hardly have
_PLAIN = str | int | float
_INDEX = ("Unnamed: 0", "index")  # what pandas calls row names that have no name themselves


class Choice(NamedTuple):
    """The columns that were chosen, and whether they were guessed."""

    points: list[str]  # what is clustered: columns of text, of numbers, or one of vectors
    texts: list[str]  # what names the clusters; the same, where text is clustered
    kind: Kind
    guessed: bool


def choose_columns(
    table: "pd.DataFrame",
    points: Sequence[str] = (),
    texts: Sequence[str] = (),
    labels: str | None = None,
    kind: Kind | None = None,
) -> Choice:
    """Take the columns that are named, or guess: never the one of the labels.

    Where `kind` is "texts", since they were texts when a map was made, cells that look like numbers
    are texts, too, and so are empty ones: what a row is does not depend on the others. Where it is
    "numbers", columns without any are numbers that are missing.

    A column of vectors comes first, then text (a column of that name, else all that hold
    sentences), then all columns of numbers but those of row numbers, also of rows that were
    chosen or shuffled, then the longest of the columns of short texts.
    """
    if len(table) == 0:
        raise ValueError("Expected a file with rows (got none).")
    for name in [*points, *texts, *([] if labels is None else [labels])]:
        if name not in table.columns:
            raise ValueError(_missing(name, [str(each) for each in table.columns]))
    for named in (points, texts):
        twice = next((each for each in named if list(named).count(each) > 1), None)
        if twice is not None:
            raise ValueError(f"Expected each column once (got {twice!r} twice).")
    if labels is not None and labels in (*points, *texts):
        raise ValueError(
            f"Expected the labels not to be among what is clustered (got {labels!r} for both)."
        )
    kinds = {name: kind_of(table[name]) for name in table.columns if name != labels}
    if kind in ("texts", "numbers"):
        alike = {"numbers", "empty"}
        kinds |= {name: kind for name in points if kinds[name] in alike}
    if kind != "texts":
        _warn_of_nearly_numbers(table, [name for name in points if kinds[name] == "texts"])
    chosen = list(points) or _guess_points(table, kinds)
    kind = _common_kind({name: kinds[name] for name in chosen})
    if kind == "texts":
        if texts:
            raise ValueError(
                "Expected no --text where text is clustered: it names the clusters (got "
                f"{', '.join(map(repr, texts))} besides {', '.join(map(repr, chosen))})."
            )
        return Choice(chosen, chosen, kind, guessed=not points)
    return Choice(chosen, list(texts) or _prose(table, kinds), kind, guessed=not points)


def _missing(name: str, columns: list[str]) -> str:
    """The error message for a missing column."""
    lowered = {each.lower(): each for each in reversed(columns)}
    near = get_close_matches(name.lower(), lowered, n=1)
    hint = f" Did you mean {lowered[near[0]]!r}?" if near else ""
    listed = ", ".join(map(repr, columns))
    return f"Expected a column {name!r} (got a file with {listed}).{hint}"


def kind_of(column: "pd.Series") -> Kind:
    """The kind of the non-empty cells of a column."""
    from pandas.api.types import infer_dtype, is_bool_dtype, is_complex_dtype, is_numeric_dtype

    if is_complex_dtype(column):
        return "other"
    if is_numeric_dtype(column) and not is_bool_dtype(column):
        return "numbers"
    cells = column.astype(object)
    has_lists = any(isinstance(cell, list | tuple | np.ndarray | dict) for cell in cells)
    cells = cells.dropna() if has_lists else cells[cells.notna() & (cells != "")]
    if cells.empty:
        return "empty"
    if cells.map(lambda cell: isinstance(cell, list | tuple | np.ndarray)).all():
        return "vectors"
    inferred = infer_dtype(cells)
    if inferred in ("integer", "floating", "mixed-integer-float", "decimal"):
        return "numbers"
    if inferred == "boolean" or not cells.map(lambda each: isinstance(each, _PLAIN)).all():
        return "other"
    truths = cells.map(lambda cell: isinstance(cell, bool)).any()
    return "texts" if truths or as_numbers(cells).isna().any() else "numbers"


def as_numbers(column: "pd.Series") -> "pd.Series":
    """Numbers of a column, NaN where a cell is none; of text, the nearest float."""
    from pandas.api.types import is_numeric_dtype

    if is_numeric_dtype(column):
        return column
    return column.astype(object).map(number_of).astype(float)


def _guess_points(table: "pd.DataFrame", kinds: dict[str, Kind]) -> list[str]:
    vectors = [name for name, kind in kinds.items() if kind == "vectors"]
    named = [name for name in vectors if name in ("x", "embeddings")]
    numbers = [
        name
        for name, kind in kinds.items()
        if kind == "numbers" and not _is_row_number(name, table[name])
    ]
    if len(vectors) == 1 or named:
        return (named or vectors)[:1]
    if len(vectors) > 1:
        raise ValueError(
            f"Expected one column of vectors (got {', '.join(map(repr, vectors))}). To fix this, "
            "say which by --column."
        )
    if prose := _prose(table, kinds):
        return prose
    texts = [name for name, kind in kinds.items() if kind == "texts"]
    _warn_of_nearly_numbers(table, texts)
    if len(numbers) > 1:
        return numbers
    commas = [name for name in texts if _has_commas(table[name])]
    if commas:
        raise ValueError(
            f"Expected numbers without commas (got {table[commas[0]].dropna().iloc[0]!r} in "
            f"{', '.join(map(repr, commas))}). To fix this, write 1.5 for 1,5 and 1000 for 1,000; "
            "or name the columns to cluster by --column, if these are texts."
        )
    if texts:
        return [max(texts, key=lambda name: table[name].astype(str).str.len().mean())]
    listed = ", ".join(f"{name!r} ({kind})" for name, kind in kinds.items())
    raise ValueError(
        "Expected a column of text or of vectors, or several of numbers (got "
        f"{listed or 'none'}). To fix this, name yours by --column."
    )


def _warn_of_nearly_numbers(table: "pd.DataFrame", names: Iterable[str]) -> None:
    """Log which columns are text because of a few cells, or of commas in numbers."""
    for name in names:
        row = np.flatnonzero(table[name].notna() & (table[name] != ""))
        cells = table[name].iloc[row]
        truths = cells.map(lambda cell: isinstance(cell, bool))
        bad = np.flatnonzero(as_numbers(cells).isna() | truths)
        if _without_commas(cells).isna().mean() < _FEW:
            logger.warning(
                "Column %r is taken for text: %d of its %d cells are no numbers (the first is %r, "
                "in row %d, counted from 0). To cluster it as numbers, mend these cells, or leave "
                "their rows out.",
                name,
                len(bad),
                len(cells),
                cells.iloc[bad[0]],
                row[bad[0]],
            )


def _prose(table: "pd.DataFrame", kinds: dict[str, Kind]) -> list[str]:
    """The column that is called text, or all columns of sentences."""
    texts = [name for name, kind in kinds.items() if kind == "texts"]
    called = [name for name in texts if name.lower() == "text"]
    return called[:1] or [name for name in texts if _mean_words(table[name]) >= _WORDS_OF_PROSE]


def _mean_words(column: "pd.Series") -> float:
    """Of the cells that are not empty."""
    words = column.dropna().astype(str).str.split().str.len()
    return float(words[words > 0].mean())


def _has_commas(column: "pd.Series") -> bool:
    """True if cells are numbers with decimal commas, or with commas between thousands."""
    cells = column.dropna()
    return bool(_without_commas(cells[cells != ""]).notna().all())


def _without_commas(cells: "pd.Series") -> "pd.Series":
    """Numbers of cells, with or without commas in them, NaN where a cell is none."""
    return as_numbers(cells.astype(str).str.replace(",", ""))


def _is_row_number(name: str, column: "pd.Series") -> bool:
    """True if a column only counts the rows, as tables have it that were written with an index.

    The index of rows that were chosen from a larger table, or shuffled, has no name.
    """
    numbers = as_numbers(column).to_numpy(dtype=float, na_value=np.nan)
    if name in _INDEX and np.all(numbers == np.round(numbers)):
        return len(np.unique(numbers)) == len(numbers)
    return len(numbers) > 1 and bool(np.all(np.diff(numbers) == 1))


def _common_kind(kinds: dict[str, Kind]) -> Kind:
    """The kind of columns that are put together."""
    listed = ", ".join(f"{name!r} ({kind})" for name, kind in kinds.items())
    found = set(kinds.values())
    if "other" in found or found == {"empty"}:
        raise ValueError(f"Expected columns of text, of numbers or of vectors (got {listed}).")
    if "vectors" in found and len(kinds) > 1:
        raise ValueError(f"Expected a column of vectors alone (got {listed}).")
    if found == {"vectors"}:
        return "vectors"
    return "numbers" if found == {"numbers"} else "texts"
