"""Read documents and their labels from a text file or a table."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._table_files import as_text, read_rows

logger = logging.getLogger(__name__)


class Documents(NamedTuple):
    """Texts, and their labels if they have some."""

    texts: list[str]  # N documents
    labels: np.ndarray | None  # [N] integers or class names


def read_documents(
    path: Path, text_columns: str | Sequence[str] = "text", label_column: str | None = None
) -> Documents:
    """Read one document a line of a text file, or one a row of a table with a header.

    Columns of text are joined by a space; labels are in the column ``label`` by default.
    """
    names = [text_columns] if isinstance(text_columns, str) else list(text_columns)
    table = read_rows(path, strings=[*names, label_column or "label"])
    columns = list(table.columns)
    if label_column is None and "label" in columns:
        label_column = "label"
    wanted = [*names, *([] if label_column is None else [label_column])]
    if missing := [name for name in wanted if name not in columns]:
        raise ValueError(
            f"Expected 'text_columns' and 'label_column' to name columns (got {missing}; it has "
            f"{columns})."
        )
    if table.empty:
        raise ValueError(f"Expected '{path}' to hold at least one document (got none).")
    logger.info("%s: documents from %s, labels from %s.", path, names, label_column)
    cells = zip(*(as_text(table[name]) for name in names), strict=True)
    texts = [" ".join(row) for row in cells]
    if empty := sum(not text.strip() for text in texts):
        logger.warning("%s: %d of %d documents are empty; kept.", path, empty, len(texts))
    if label_column is None:
        return Documents(texts, None)
    labels = as_text(table[label_column])
    if empty := labels.count(""):
        raise ValueError(
            f"Expected a label in every row of '{path}' (got {empty} of {len(labels)} empty)."
        )
    # "01" is a name, and not the class 1.
    are_numbers = all(re.fullmatch("0|-?[1-9][0-9]{0,17}", label) for label in labels)
    return Documents(texts, np.array(labels).astype(np.int64 if are_numbers else np.str_))
