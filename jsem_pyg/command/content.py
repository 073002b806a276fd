"""Turn columns into what is clustered: documents or vectors, and the labels to compare with."""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._table_files import as_text
from .columns import Column

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 3  # points that make a graph
_MOST_CATEGORIES = 1_000
_FULL = 5  # times the agreement with other columns is the weight of a category, at most one
_LEAST_WEIGHT = 1e-3
_MISSING = "(missing)"  # the category of rows that have none


class Encoding(NamedTuple):
    """Says how columns became numbers, for rows that come later."""

    levels: dict[str, list[str]]  # the categories of each column that has some
    forms: dict[str, str]  # the format of each column of dates
    fill: list[float] | None  # [D] in place of what is missing; None: such rows are left out


class Content(NamedTuple):
    """Holds the content of the N rows of a file as P points. Equal documents are one point."""

    point: np.ndarray  # [N] the point of each row, -1 for one that is left out
    texts: list[str] | None  # the P documents, where there are any
    vectors: np.ndarray | None  # [P, D] floats, where no text is to be embedded
    # In how many rows each column lacks something: they are left out, or filled by `encoding`.
    missing: Mapping[str, int]
    names: Sequence[str] = ()  # [D] of the columns of `vectors`; none if the file has vectors
    is_category: np.ndarray = np.zeros(0, bool)  # [D] True for columns of `vectors` that are ones
    encoding: Encoding = Encoding({}, {}, None)

    @property
    def first_row(self) -> np.ndarray:
        """Return the first row [P] of each point."""
        points, first = np.unique(self.point, return_index=True)
        return first[points >= 0]

    @property
    def sizes(self) -> np.ndarray:
        """Count the rows [P] of each point."""
        return np.bincount(self.point[self.point >= 0])

    def divisors(self, scale: str) -> np.ndarray | None:
        """Choose what the columns [D] are divided by, or None; categories are `weights` apart."""
        if self.vectors is None or scale == "none" or (scale == "auto" and not self.names):
            return None
        from ..estimators.columns import agreement, spread  # with all of torch

        found = np.where(self.is_category, 2**0.5, spread(self.vectors, robust=scale != "standard"))
        x = self.vectors / found
        for columns in self._of_categories().values():
            share = agreement(np.delete(x, columns, 1), self.vectors[:, columns].argmax(1))
            found[columns] /= np.clip(_FULL * share, _LEAST_WEIGHT, 1)
        return found

    def weights(self, divisors: np.ndarray) -> dict[str, float]:
        """Return how far apart two categories of each column are, by name."""
        found = self._of_categories().items()
        return {name: float(2**0.5 / divisors[columns[0]]) for name, columns in found}

    def _of_categories(self) -> dict[str, np.ndarray]:
        """Return which columns of `vectors` a column of categories became, by its name."""
        ends = np.cumsum([len(each) for each in self.encoding.levels.values()])
        parts = np.split(np.flatnonzero(self.is_category), ends[:-1])
        return dict(zip(self.encoding.levels, parts, strict=True)) if len(ends) else {}


def read_documents(columns: Sequence[Column], fewest: int = _FEWEST) -> Content:
    """Join the texts of a row by a space, and take each document once.

    Documents of white space alone are left out, since they say nothing.
    """
    import pandas as pd

    texts = pd.Series(_joined(columns), dtype=object)
    point, different = pd.factorize(texts.where(texts.str.strip() != "", None))
    _check_enough(len(different), len(texts), "different documents", fewest)
    empty = int((point < 0).sum())
    return Content(point, different.tolist(), None, {"the text": empty} if empty else {})


def read_vectors(
    columns: Sequence[Column],
    texts: Sequence[Column] = (),
    fewest: int = _FEWEST,
    impute: bool = False,
    encoding: Encoding | None = None,
) -> Content:
    """Put columns of a table, or one of vectors, beside each other; `texts` name the clusters.

    Rows that lack a number are left out; with `impute` the median of a column takes the place of
    missing numbers, in rows that hold something. `encoding` is of the rows that were mapped.
    """
    if encoding is None:
        forms = {column.name: column.form for column in columns if column.form}
        levels = {each.name: _categories(each) for each in columns if each.type == "category"}
        encoding = Encoding(levels, forms, None)
    blocks = [_encoded(column, encoding.levels) for column in columns]
    x = np.concatenate([block for block, _ in blocks], axis=1)
    of = np.repeat([column.name for column in columns], [block.shape[1] for block, _ in blocks])
    is_category = np.isin(of, list(encoding.levels))
    lacking = ~np.isfinite(x)
    if impute:
        if lacking.all(0).any():
            name = of[lacking.all(0)][0]
            raise ValueError(f"Expected numbers in the column {name!r} (got none to fill in).")
        fill = np.nanmedian(np.where(lacking, np.nan, x), axis=0)
        encoding = encoding._replace(fill=fill.tolist())
    if encoding.fill is not None:
        lacking &= ~lacking.all(1, keepdims=True)  # of a row that holds nothing, nothing is known
        x = np.where(lacking, encoding.fill, x)
    lacks = {each.name: int(lacking[:, of == each.name].any(1).sum()) for each in columns}
    missing = {name: count for name, count in lacks.items() if count}
    kept = np.isfinite(x).all(1)
    points = x[kept]
    _check_enough(len(points), len(x), "rows without missing numbers", fewest)
    if fewest > 1 and bool((points == points[0]).all()):
        raise ValueError(f"Expected rows that differ (got {len(points)} that are the same).")
    named_by = list(compress(_joined(texts), kept)) if texts else None
    point = np.where(kept, np.cumsum(kept) - 1, -1)
    names = [name for _, parts in blocks for name in parts]
    return Content(point, named_by, points, missing, names, is_category, encoding)


def read_labels(cells: "pd.Series") -> tuple[np.ndarray, list[str]]:
    """Return the class [N] of each row, -1 where its label is missing, and the names of classes."""
    import pandas as pd

    labels = [text if text.strip() else None for text in as_text(cells)]
    codes, classes = pd.factorize(pd.Series(labels, dtype=object), sort=True)
    if len(classes) == 0:
        raise ValueError(f"Expected labels in {cells.name!r} (got none in {len(cells)} rows).")
    return codes.astype(np.int64), list(classes)


def _joined(columns: Sequence[Column]) -> list[str]:
    rows = zip(*(column.values for column in columns), strict=True)
    return [" ".join(filter(None, cells)) for cells in rows]


def _categories(column: Column) -> list[str]:
    """List the categories of a column; an empty cell is one, too."""
    found = sorted(set(map(str.strip, column.values)))
    if len(found) > _MOST_CATEGORIES:
        raise ValueError(
            f"Expected at most {_MOST_CATEGORIES:,} categories in the column {column.name!r} "
            f"(got {len(found):,}). To fix this, leave it out."
        )
    return found


def _encoded(column: Column, levels: dict[str, list[str]]) -> tuple[np.ndarray, list[str]]:
    """Return the numbers [N, d] of a column, and their names; a category is a column of ones."""
    if column.type == "vector":
        return column.values, []
    if column.type != "category":
        return column.values[:, None], [column.name]
    known = levels[column.name]
    cells = np.array([cell.strip() for cell in column.values], dtype=object)
    ones = (cells[:, None] == np.array(known, dtype=object)).astype(float)
    return ones, [f"{column.name} {category or _MISSING}" for category in known]


def _check_enough(count: int, rows: int, what: str, fewest: int) -> None:
    if count < fewest:
        raise ValueError(f"Expected {fewest} {what} or more (got {count} in {rows} rows).")
