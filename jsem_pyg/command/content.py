"""Columns of a table -> what is clustered: documents or vectors, and the labels to compare with."""

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._table_files import number_of
from .columns import Choice, as_numbers

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 3  # points that make a graph
_LARGEST_EXACT = 2.0**53  # up to which float64 has all integers
_MOST_ROUNDING = 1e-3  # of the standard deviation


class Content(NamedTuple):
    """Content of the N rows of a file: P points. Equal documents are one point."""

    point: np.ndarray  # [N] the point of each row, -1 for an empty one
    texts: list[str] | None  # the P documents, where there are any
    vectors: np.ndarray | None  # [P, D] floats, where no text is to be embedded

    @property
    def first_row(self) -> np.ndarray:
        """The first row [P] of each point."""
        points, first = np.unique(self.point, return_index=True)
        return first[points >= 0]


class Labels(NamedTuple):
    """Labels that clusters are compared with."""

    codes: np.ndarray  # [N] the class of each row of the file, -1 for none
    classes: list[str]


def read_content(table: "pd.DataFrame", choice: Choice, fewest: int = _FEWEST) -> Content:
    """Documents of the text columns, joined by a space, or vectors of the others.

    Documents of white space alone are left out: they have no meaning to embed.
    """
    texts = _documents(table, choice.texts) if choice.texts else None
    if choice.kind != "texts":
        vectors = _vectors(table, choice.points)
        _check_enough(len(vectors), len(vectors), "rows", fewest)
        if choice.kind == "numbers" and fewest > 1:  # else they are compared with others
            for name, numbers in zip(choice.points, vectors.T, strict=True):
                _check_digits(name, table[name], numbers)
        if fewest > 1 and bool((vectors == vectors[0]).all()):
            raise ValueError(f"Expected rows that differ (got {len(vectors)} that are the same).")
        return Content(np.arange(len(vectors)), texts, vectors)
    assert texts is not None
    number = {text: i for i, text in enumerate(dict.fromkeys(filter(str.strip, texts)))}
    _check_enough(len(number), len(texts), "different documents", fewest)
    return Content(np.array([number.get(text, -1) for text in texts]), list(number), None)


def read_labels(table: "pd.DataFrame", name: str) -> Labels:
    """The class [N] of each row, -1 where its label is missing, and the names of the classes."""
    import pandas as pd

    cells = as_written(table[name]).astype(object)
    cells = cells.where(cells.notna(), None).map(_as_label)
    cells = cells.where(cells.astype(str).str.strip() != "", None)
    codes, classes = pd.factorize(cells, sort=True)
    if len(classes) == 0:
        raise ValueError(f"Expected labels in the column {name!r} (got none in {len(table)} rows).")
    return Labels(codes.astype(np.int64), [str(each) for each in classes])


def _as_label(cell: object) -> str | None:
    """The name of a class; 1 and 1.0, as JSON may have them, are one class."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return None if cell is None else str(cell)


def _documents(table: "pd.DataFrame", names: Sequence[str]) -> list[str]:
    parts = [
        [_as_text(name, row, cell) for row, cell in enumerate(as_written(table[name]))]
        for name in names
    ]
    return [" ".join(filter(None, cells)) for cells in zip(*parts, strict=True)]


def as_written(column: "pd.Series") -> "pd.Series":
    """The cells of a column, of which float32 has 0.1, not the float64 that is next to it."""
    return column.astype(str).map(number_of) if column.dtype.kind == "f" else column


def _as_text(name: str, row: int, cell: object) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, list | tuple | dict | np.ndarray):
        raise ValueError(
            f"Expected text in the column {name!r} (got a {type(cell).__name__} in row {row})."
        )
    if cell is None or cell != cell or type(cell).__name__ in ("NAType", "NaTType"):
        return ""
    return str(cell)


def _vectors(table: "pd.DataFrame", names: Sequence[str]) -> np.ndarray:
    """[N, D] in float32 where the file has that, else in float64.

    Dates in seconds, for instance, differ in digits that float32 does not have.
    """
    listed = ", ".join(map(repr, names))
    try:
        if len(names) == 1 and len(table) and not np.isscalar(table[names[0]].iloc[0]):
            vectors = np.stack([np.asarray(cell) for cell in table[names[0]]])
        else:
            columns = [as_numbers(table[name]) for name in names]
            vectors = np.stack([each.to_numpy(float, na_value=np.nan) for each in columns], axis=1)
        if vectors.dtype.kind in "cmM":
            raise TypeError(f"they are {vectors.dtype}")
        single = vectors.dtype in (np.float16, np.float32)
        vectors = vectors.astype(np.float32 if single else np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"Expected {listed} to hold vectors of one length: {error}.") from error
    if vectors.ndim != 2 or vectors.size == 0:
        raise ValueError(f"Expected {listed} to hold vectors [N, D] (got {list(vectors.shape)}).")
    bad = np.flatnonzero(~np.isfinite(vectors).all(1))
    if bad.size:
        if len(names) == vectors.shape[1]:
            finite = np.isfinite(vectors).all(0)
            listed = ", ".join(
                repr(name) for name, fine in zip(names, finite, strict=True) if not fine
            )
        first = ", ".join(map(str, bad[:5])) + (", ..." if bad.size > 5 else "")
        raise ValueError(
            f"Expected {listed} to hold finite numbers (got NaN, infinite or no number in "
            f"{bad.size} of {len(vectors)} rows, counted from 0: {first}). To fix this, fill them "
            "in or leave these rows out."
        )
    return vectors


def _check_digits(name: str, column: "pd.Series", numbers: np.ndarray) -> None:
    """Raise a ValueError if integers differ in digits that their float64 `numbers` [N] lack."""
    if column.dtype.kind == "f" or np.abs(numbers).max() < _LARGEST_EXACT:
        return
    cells = zip(column, numbers.tolist(), strict=True)
    rounding = max(abs(Fraction(str(cell)) - Fraction(number)) for cell, number in cells)
    if rounding > _MOST_ROUNDING * numbers.std():
        raise ValueError(
            f"Expected {name!r} to differ in the first 15 digits, which numbers are compared by "
            f"(got a standard deviation of {numbers.std():.3g}, and a rounding of "
            f"{float(rounding):.3g}). To fix this, subtract the smallest number."
        )


def _check_enough(count: int, rows: int, what: str, fewest: int) -> None:
    if count < fewest:
        raise ValueError(f"Expected {fewest} {what} or more (got {count} in {rows} rows).")
