"""Columns of a table -> what is clustered: documents or vectors, and the labels to compare with."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._table_files import Reading, as_numbers
from .columns import Choice, as_days, date_format

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 3  # points that make a graph
_MOST_CATEGORIES = 1_000
MISSING = "(missing)"  # the category of rows that have none


class Encoding(NamedTuple):
    """How the columns of a table become columns of numbers; kept for rows that come later."""

    levels: dict[str, list[str]]  # the categories of a column, or the format of its dates
    fill: list[float] | None  # [D] in place of what is missing; None: such rows are left out


class Content(NamedTuple):
    """Content of the N rows of a file: P points. Equal documents are one point."""

    point: np.ndarray  # [N] the point of each row, -1 for one that is left out
    texts: list[str] | None  # the P documents, where there are any
    vectors: np.ndarray | None  # [P, D] floats, where no text is to be embedded
    missing: Mapping[int, str]  # what is missing in each row that is left out
    filled: Mapping[str, int] = {}  # how many numbers of a column were missing, and are its median
    names: Sequence[str] = ()  # [D] of the columns of `vectors`; none if the file has vectors
    is_category: np.ndarray = np.zeros(0, bool)  # [D] True for columns of `vectors` that are ones
    encoding: Encoding = Encoding({}, None)

    @property
    def first_row(self) -> np.ndarray:
        """The first row [P] of each point."""
        points, first = np.unique(self.point, return_index=True)
        return first[points >= 0]

    @property
    def sizes(self) -> np.ndarray:
        """The number of rows [P] of each point."""
        return np.bincount(self.point[self.point >= 0])


class Labels(NamedTuple):
    """Labels that clusters are compared with."""

    codes: np.ndarray  # [N] the class of each row of the file, -1 for none
    classes: list[str]


def read_content(
    table: "pd.DataFrame",
    choice: Choice,
    reading: Reading,
    fewest: int = _FEWEST,
    impute: bool = False,
    encoding: Encoding | None = None,
) -> Content:
    """Documents of the text columns, joined by a space, or vectors of the others.

    Rows without a document, and rows that lack a number, are left out; with `impute` the median of
    a column takes the place of missing numbers. `encoding` is of the rows that were mapped.
    """
    texts = _documents(table, choice.texts) if choice.texts else None
    if choice.kind == "texts":
        return _distinct(texts or [], fewest)
    if choice.kind == "vectors":
        x, encoding = _stacked(table[choice.points[0]]), encoding or Encoding({}, None)
        names = list[str]()
        of = np.array([choice.points[0]] * x.shape[1])
    else:
        encoding = encoding or Encoding(_levels(table, choice), None)
        x, names, of = _encoded(table, choice.types, encoding.levels, reading)
    is_category = np.array([choice.types.get(name) == "category" for name in of])
    lacking, filled = ~np.isfinite(x), dict[str, int]()
    if impute and lacking.all(0).any():
        name = of[lacking.all(0)][0]
        raise ValueError(f"Expected numbers in the column {name!r} (got none to fill in).")
    if impute:
        fill = np.nanmedian(np.where(lacking, np.nan, x), axis=0)
        encoding = encoding._replace(fill=fill.tolist())
    if encoding.fill is not None:
        filled = {name: int(lacking[:, of == name].sum()) for name in of[lacking.any(0)]}
        x, lacking = np.where(lacking, encoding.fill, x), np.zeros_like(lacking)
    left_out = lacking.any(1)
    missing = {
        row: ", ".join(dict.fromkeys(of[lacking[row]])) for row in np.flatnonzero(left_out).tolist()
    }
    kept = x[~left_out]
    _check_enough(len(kept), len(x), "rows without missing numbers", fewest)
    if fewest > 1 and bool((kept == kept[0]).all()):
        raise ValueError(f"Expected rows that differ (got {len(kept)} that are the same).")
    if texts is not None:
        texts = [text for text, out in zip(texts, left_out, strict=True) if not out]
    point = np.where(left_out, -1, np.cumsum(~left_out) - 1)
    return Content(point, texts, kept, missing, filled, names, is_category, encoding)


def _distinct(texts: list[str], fewest: int) -> Content:
    """Each document once; those of white space alone are left out, since they say nothing."""
    number = {text: i for i, text in enumerate(dict.fromkeys(filter(str.strip, texts)))}
    _check_enough(len(number), len(texts), "different documents", fewest)
    point = np.array([number.get(text, -1) for text in texts])
    empty = dict.fromkeys(np.flatnonzero(point < 0).tolist(), "the text")
    return Content(point, list(number), None, empty)


def read_labels(table: "pd.DataFrame", name: str) -> Labels:
    """The class [N] of each row, -1 where its label is missing, and the names of the classes."""
    import pandas as pd

    cells = [cell if cell.strip() else None for cell in as_text(table[name])]
    codes, classes = pd.factorize(pd.Series(cells, dtype=object), sort=True)
    if len(classes) == 0:
        raise ValueError(f"Expected labels in the column {name!r} (got none in {len(table)} rows).")
    return Labels(codes.astype(np.int64), list(classes))


def as_text(column: "pd.Series") -> list[str]:
    """The cells of a column as they are written, empty where they are missing; 1.0 is 1."""
    is_float = column.dtype.kind == "f"  # of float32, whose 0.1 is another number in float64
    cells = column.astype(str) if is_float else column
    return [
        ""
        if missing
        else str(cell).removesuffix(".0" if is_float or isinstance(cell, float) else "")
        for cell, missing in zip(cells, column.isna(), strict=True)
    ]


def _documents(table: "pd.DataFrame", names: Sequence[str]) -> list[str]:
    for name in names:
        for row, cell in enumerate(table[name]):
            if isinstance(cell, list | tuple | dict | np.ndarray):
                raise ValueError(
                    f"Expected text in the column {name!r} (got a {type(cell).__name__} in row "
                    f"{row})."
                )
    parts = [as_text(table[name]) for name in names]
    return [" ".join(filter(None, cells)) for cells in zip(*parts, strict=True)]


def _stacked(column: "pd.Series") -> np.ndarray:
    """Vectors [N, D], NaN where there is none; in float32 where the file has that."""
    sizes = {np.size(cell) for cell in column.dropna()}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(
            f"Expected {column.name!r} to hold vectors of one length (got {sorted(sizes)[:5]})."
        )
    size = sizes.pop()
    rows = [np.full(size, np.nan, np.float32) if np.size(cell) != size else cell for cell in column]
    try:
        vectors = np.stack([np.asarray(row) for row in rows])
        single = vectors.dtype in (np.float16, np.float32)
        return vectors.astype(np.float32 if single else np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"Expected {column.name!r} to hold vectors of numbers: {error}") from error


def _levels(table: "pd.DataFrame", choice: Choice) -> dict[str, list[str]]:
    """The categories of each column that has some, an empty cell is one, too; formats of dates."""
    found = {}
    for name in choice.points:
        if choice.types[name] == "date":
            found[name] = [date_format(table[name])]
        if choice.types[name] == "category":
            found[name] = sorted({cell.strip() for cell in as_text(table[name])})
            if len(found[name]) > _MOST_CATEGORIES:
                raise ValueError(
                    f"Expected at most {_MOST_CATEGORIES:,} categories in the column {name!r} (got "
                    f"{len(found[name]):,}). To fix this, leave it out."
                )
    return found


def _encoded(
    table: "pd.DataFrame",
    types: Mapping[str, str],
    levels: dict[str, list[str]],
    reading: Reading,
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """[N, D]: numbers, dates in days, and a one for the category of a row; names, and columns."""
    blocks, names, of = [], [], []
    for name, each in types.items():
        if each == "category":
            cells = np.array([cell.strip() for cell in as_text(table[name])], dtype=object)
            known = levels[name]
            blocks.append((cells[:, None] == np.array(known, dtype=object)).astype(float))
            names += [f"{name} {category or MISSING}" for category in known]
        else:
            column, is_date = table[name], each == "date"
            read = as_days(column, levels[name][0]) if is_date else as_numbers(column, reading)
            blocks.append(read[:, None])
            names.append(name)
        of += [name] * blocks[-1].shape[1]
    return np.concatenate(blocks, axis=1), names, np.array(of)


def _check_enough(count: int, rows: int, what: str, fewest: int) -> None:
    if count < fewest:
        raise ValueError(f"Expected {fewest} {what} or more (got {count} in {rows} rows).")
