"""Read documents and their labels from a text file or a table."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._table_files import Reading, as_numbers, is_missing, read_rows

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)


class Documents(NamedTuple):
    """Texts, and their labels if they have some."""

    texts: list[str]  # N documents
    labels: np.ndarray | None  # [N] integers or class names
    names: Sequence[str] | None = None  # of the classes that are integers


def check_columns(text_columns: Any, label_column: Any) -> None:
    """Raise unless `text_columns` names columns, one or several, and `label_column` one, if any."""
    is_list = isinstance(text_columns, Sequence) and not isinstance(text_columns, bytes)
    if text_columns is not None and not (
        is_list and all(isinstance(name, str) for name in text_columns)
    ):
        raise TypeError(
            "Expected 'text_columns' to be the name of a column or a list of names "
            f"(got {text_columns!r})."
        )
    if text_columns is not None and not text_columns:
        raise ValueError(f"Expected 'text_columns' to name a column (got {text_columns!r}).")
    if label_column is not None and not isinstance(label_column, str):
        raise TypeError(
            f"Expected 'label_column' to be the name of a column (got {label_column!r})."
        )


def read_documents(
    path: Path, text_columns: str | Sequence[str] | None = None, label_column: str | None = None
) -> Documents:
    """Read one document a line of a text file, or one a row of a table with a header.

    An empty line of a text file is an empty document, so that rows keep their number.

    Args:
        path: the file, in any form of text that :func:`.read_rows` reads.
        text_columns: the columns that make up a document, joined by a space in this order. By
            default ``text`` if there is such a column, else all that hold more than numbers.
        label_column: the column of labels: class indices, or class names. By default ``label``
            if there is such a column, else there are no labels.
    """
    table = read_rows(path, Reading())
    columns = list(table.columns)
    if label_column is None and "label" in columns:
        label_column = "label"
    if text_columns is None:
        text_columns = _default_text_columns(table, label_column)
    text_columns = [text_columns] if isinstance(text_columns, str) else list(text_columns)
    wanted = [*text_columns, *([] if label_column is None else [label_column])]
    missing = [name for name in wanted if name not in columns]
    if missing or not text_columns:
        raise ValueError(
            f"Expected '{path}' to have {f'the columns {missing}' if missing else 'text columns'} "
            f"(got {columns}). To fix this, name yours by 'text_columns' and 'label_column'."
        )
    if table.empty:
        raise ValueError(f"Expected '{path}' to hold at least one document (got none).")
    logger.info("%s: documents from %s, labels from %s.", path, text_columns, label_column)
    texts = table[text_columns].agg(" ".join, axis=1)
    if empty := int((texts.str.strip() == "").sum()):
        logger.warning("%s: %d of %d documents are empty; kept.", path, empty, len(texts))
    labels = None if label_column is None else _labels(table[label_column], path)
    return Documents(texts.tolist(), labels)


def _default_text_columns(table: "pd.DataFrame", label_column: str | None) -> list[str]:
    if "text" in table.columns and label_column != "text":
        return ["text"]
    return [
        name
        for name, cells in table.items()
        if name != label_column and np.isnan(as_numbers(cells[~is_missing(cells)])).any()
    ]


def _labels(column: "pd.Series", path: Path) -> np.ndarray:
    if empty := int((column == "").sum()):
        raise ValueError(
            f"Expected a label in every row of '{path}' (got {empty} of {len(column)} empty in "
            f"the column '{column.name}')."
        )
    if column.str.fullmatch("0|-?[1-9][0-9]{0,17}").all():  # "01" is a name, and not the class 1
        return column.astype(np.int64).to_numpy()
    return np.array(column.tolist(), dtype=np.str_)
