"""Read points of your own: embeddings, or documents to be embedded."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from .base import existing_file
from .documents import Documents, check_columns, read_documents
from .file_dataset import ARRAYS, FileDataset, kind_of

_TABLES = (".csv", ".tsv")
_KINDS = (*ARRAYS, ".txt", *_TABLES)


class EmbeddingDataset(FileDataset):
    """Reads points of your own: x [N, D] in the order of the file, and y [N] if it has labels.

    Args:
        root: folder for the processed data.
        path: the file, by its extension:

            * ``.npy``: embeddings [N, D], floating point.
            * ``.npz``: embeddings ``x`` (or ``embeddings``, or a lone array), perhaps labels ``y``
              [N], class indices or class names, and ``target_names``, the name of each class.
            * ``.txt``: one document a line, UTF-8. An empty line is an empty document.
            * ``.csv``, ``.tsv``: one document a row, with a header. Text and tables may be
              compressed (``.csv.gz``).
        model: name or folder of the sentence-transformers model for documents; all-MiniLM-L6-v2 by
            default, see `embed_texts`.
        text_columns: columns that make up a document, joined by a space in this order. By
            default ``text`` if there is such a column, else all that hold more than numbers.
        label_column: column of labels, class indices or class names. By default ``label``
            if there is such a column, else there are no labels.
        words: weight of the words of documents beside their embeddings, see `WordFeatures`; 0, the
            default, leaves them out.
        batch_size: documents embedded at once.
        transform: applied to the data at every access.
        pre_transform: applied once, before the data are saved.
        force_reload: process again, even if there are processed data.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file does not hold what its extension promises, or has no use for an
            argument.

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
        text_columns: str | Sequence[str] | None = None,
        label_column: str | None = None,
        words: float = 0.0,
        batch_size: int = 64,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        force_reload: bool = False,
    ) -> None:
        path = existing_file("path", path)
        kind = kind_of(path)
        if kind not in _KINDS:
            raise ValueError(
                f"Expected 'path' to end in one of {', '.join(_KINDS)}, the last three perhaps "
                f"with .gz (got '{path.name}')."
            )
        without_use: dict[str, Any] = {"model": model, "words": words} if kind in ARRAYS else {}
        if kind not in _TABLES:
            without_use |= {"text_columns": text_columns, "label_column": label_column}
        for name, value in without_use.items():
            if value not in (None, 0):
                raise ValueError(
                    f"Expected no '{name}' with the file '{path.name}', which has no use for it "
                    f"(got {value!r})."
                )
        check_columns(text_columns, label_column)
        self.text_columns = text_columns
        self.label_column = label_column
        super().__init__(
            root, path, model, batch_size, words, transform, pre_transform, force_reload
        )

    def fingerprint(self) -> dict[str, Any]:
        """Return what the points depend on: the file, the model and the columns."""
        columns = {"text_columns": self.text_columns, "label_column": self.label_column}
        return {**super().fingerprint(), **columns}

    def read_documents(self) -> Documents:
        """Read a document from every line or row."""
        return read_documents(self.path, self.text_columns, self.label_column)
