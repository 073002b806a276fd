"""Read points of your own: embeddings, or documents to be embedded."""

import logging
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._files import as_path
from .._progress import progress_bar
from .._table_files import as_text, read_rows, suffix_of
from .._table_files.arrays import read_arrays
from .embedder import Embedder
from .points import PointsDataset, labelled_points

logger = logging.getLogger(__name__)


class EmbeddingDataset(PointsDataset):
    """Reads points of your own: x [N, D] in the order of the file, and y [N] if it has labels.

    Args:
        root: folder where embeddings of documents are kept, in blocks that are known by their texts
            and the model.
        path: the file, by its extension:

            * ``.npy``: embeddings [N, D], floating point.
            * ``.npz``: embeddings ``x`` (or ``embeddings``, or a lone array), perhaps labels ``y``
              [N], class indices or class names, and ``target_names``, the name of each class.
            * ``.txt``: one document a line, UTF-8. An empty line is an empty document.
            * ``.csv``, ``.tsv``, ``.json``, ``.jsonl``, ``.xlsx``, ``.parquet``: one document a
              row, with names of columns. Text may be compressed (``.csv.gz``).
        model: name or folder of the sentence-transformers model for documents; all-MiniLM-L6-v2 by
            default, see `embed_texts`.
        text_columns: the column of documents, or several, joined by a space in this order.
        label_column: column of labels, class indices or class names. By default ``label``
            if there is such a column, else there are no labels.
        transform: applied to the data at every access.
        pre_transform: applied once, when the data set is made.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/mine.npz", x=np.ones((3, 2)), y=["sea", "sky", "sea"])
        ...     dataset = EmbeddingDataset(folder, f"{folder}/mine.npz")
        >>> dataset[0], dataset.classes
        (Data(x=[3, 2], y=[3]), ['sea', 'sky'])
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        path: str | os.PathLike[str],
        model: str | os.PathLike[str] | None = None,
        *,
        text_columns: str | Sequence[str] = "text",
        label_column: str | None = None,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
    ) -> None:
        source = as_path("path", path)
        if not source.is_file():
            raise FileNotFoundError(f"Expected 'path' to be an existing file (got '{path}').")
        embedder = Embedder(model, as_path("root", root) / "embeddings")
        names = [text_columns] if isinstance(text_columns, str) else text_columns
        if not isinstance(names, Sequence) or not names:
            raise TypeError(f"Expected 'text_columns' to be names of columns (got {names!r}).")
        if suffix_of(source) in (".npy", ".npz"):
            if model is not None:
                raise ValueError(f"Expected no 'model' with arrays (got {model!r}).")
            arrays: tuple[Any, ...] = read_arrays(source)
        else:
            texts, labels = _read_documents(source, names, label_column)
            with progress_bar("embedding", len(texts), True) as advance:
                x = embedder.embed(texts, advance)
            arrays = x, labels, None
        try:
            points = labelled_points(*arrays)
        except (TypeError, ValueError) as error:
            raise type(error)(f"In '{source}': {error}") from error
        super().__init__(root, points, transform, pre_transform)


def _read_documents(
    path: Path, names: Sequence[str], label_column: str | None
) -> tuple[list[str], np.ndarray | None]:
    """Read N documents, one a line or one a row, and their labels [N] if they have some.

    Columns of text are joined by a space; labels are in the column ``label`` by default.
    """
    table = read_rows(path, strings=[*names, label_column or "label"])
    columns = list(table.columns)
    if label_column is None and "label" in columns:
        label_column = "label"
    wanted = [*names, *([] if label_column is None else [label_column])]
    if missing := [name for name in wanted if name not in columns]:
        raise ValueError(
            f"Expected 'text_columns' and 'label_column' in {columns} (got {missing})."
        )
    if table.empty:
        raise ValueError(f"Expected '{path}' to hold at least one document (got none).")
    logger.info("%s: documents from %s, labels from %s.", path, names, label_column)
    cells = zip(*(as_text(table[name]) for name in names), strict=True)
    texts = [" ".join(row) for row in cells]
    if empty := sum(not text.strip() for text in texts):
        logger.warning("%s: %d of %d documents are empty; kept.", path, empty, len(texts))
    if label_column is None:
        return texts, None
    labels = as_text(table[label_column])
    if empty := labels.count(""):
        raise ValueError(f"Expected no empty label in '{path}' (got {empty} of {len(labels)}).")
    # "01" is a name, and not the class 1.
    are_numbers = all(re.fullmatch("0|-?[1-9][0-9]{0,17}", label) for label in labels)
    return texts, np.array(labels).astype(np.int64 if are_numbers else np.str_)
