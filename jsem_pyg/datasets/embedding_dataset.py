"""Your own points: embeddings, or documents to be embedded."""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from .._checks import check_nonnegative, check_positive_int
from .._files import content_hash
from .._table_files import suffix_of
from .base import PointsDataset, existing_file
from .documents import check_columns, read_documents
from .points import LabelledPoints, labelled_points, read_embeddings
from .text import check_model, embed_texts, model_fingerprint
from .word_features import WordFeatures

logger = logging.getLogger(__name__)

_ARRAYS = (".npy", ".npz")
_LINES = (".txt", ".txt.gz")
_TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")


class EmbeddingDataset(PointsDataset):
    """Points of your own: x [N, D] in the order of the file, and y [N] where it has labels.

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
            default ``text`` where there is such a column, else all that hold more than numbers.
        label_column: column of labels, class indices or class names. By default ``label``
            where there is such a column, else there are no labels.
        words: weight of the words of documents beside their embeddings, see `WordFeatures`; 0, the
            default, leaves them out.
        batch_size: documents embedded at once.
        transform: applied to the data at every access.
        pre_transform: applied once, before the data are saved.
        force_reload: process again, even if there are processed data.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: on another extension, an argument that the kind of file has no use for, or
            contents that do not fit.
        TypeError: if embeddings are not of floating-point type, or an argument of the wrong type.

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
        self.path = existing_file("path", path)
        self.model = model
        self.text_columns = text_columns
        self.label_column = label_column
        self.words = words
        self.batch_size = batch_size
        check_nonnegative("words", words)
        self._check_kind()
        check_columns(text_columns, label_column)
        check_model(model)
        check_positive_int("batch_size", batch_size)
        super().__init__(root, transform, pre_transform, force_reload)

    def _is(self, kind: tuple[str, ...]) -> bool:
        return self.path.name.lower().endswith(kind)

    def _check_kind(self) -> None:
        if not self._is(_ARRAYS + _LINES + _TABLES):
            listed = ", ".join(_ARRAYS + _LINES + _TABLES)
            raise ValueError(f"Expected 'path' to end in one of {listed} (got '{self.path.name}').")
        has_use = {
            "model": not self._is(_ARRAYS),
            "text_columns": self._is(_TABLES),
            "label_column": self._is(_TABLES),
            "words": not self._is(_ARRAYS),
        }
        for name, useful in has_use.items():
            value = getattr(self, name)
            if value not in (None, 0) and not useful:
                raise ValueError(
                    f"Expected no '{name}' with the file '{self.path.name}', which has no use for "
                    f"it (got {value!r})."
                )

    def fingerprint(self) -> dict[str, Any]:
        """Return the kind and contents of the file, and what turns its documents into points."""
        source = {"kind": suffix_of(self.path), "source": content_hash(self.path)}
        if self._is(_ARRAYS):
            return source
        return {
            **source,
            "model": model_fingerprint(self.model),
            "text_columns": self.text_columns,
            "label_column": self.label_column,
            **({"words": self.words} if self.words else {}),
        }

    def read(self) -> LabelledPoints:
        """Read the embeddings, or embed the documents."""
        if self._is(_ARRAYS):
            return read_embeddings(self.path)
        documents = read_documents(self.path, self.text_columns, self.label_column)
        logger.info("Embedding the %d documents of %s.", len(documents.texts), self.path)
        x = embed_texts(documents.texts, self.model, self.batch_size)
        if self.words:
            x = WordFeatures(self.words).fit(documents.texts).beside(x, documents.texts)
        return labelled_points(x, documents.labels)
