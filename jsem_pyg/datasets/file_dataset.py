"""Read one file into points: embeddings as they are, documents through a model."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._checks import check_nonnegative, check_positive_int
from .._files import content_hash
from .base import PointsDataset
from .documents import Documents
from .points import LabelledPoints, labelled_points, read_arrays
from .text import check_model, embed_texts, model_fingerprint
from .word_features import WordFeatures

logger = logging.getLogger(__name__)

ARRAYS = (".npy", ".npz")


class FileDataset(PointsDataset):
    """Reads the points of one file, see `EmbeddingDataset` for the arguments.

    A subclass reads the documents of a file that holds no arrays.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        path: Path,
        model: str | os.PathLike[str] | None,
        batch_size: int,
        words: float,
        transform: Callable | None,
        pre_transform: Callable | None,
        force_reload: bool,
    ) -> None:
        check_model(model)
        check_positive_int("batch_size", batch_size)
        check_nonnegative("words", words)
        self.path = path
        self.model = model
        self.batch_size = batch_size
        self.words = words
        super().__init__(root, transform, pre_transform, force_reload)

    def read_documents(self) -> Documents:
        """Read the texts of the file, and their labels."""
        raise NotImplementedError

    def fingerprint(self) -> dict[str, Any]:
        """Return the kind and contents of the file, and what turns its documents into points."""
        kind = kind_of(self.path)
        source = {"kind": kind, "source": content_hash(self.path)}
        if kind in ARRAYS:
            return source
        return {**source, "model": model_fingerprint(self.model), "words": float(self.words)}

    def read(self) -> LabelledPoints:
        """Read the embeddings, or embed the documents."""
        arrays: tuple[Any, ...]
        if kind_of(self.path) in ARRAYS:
            arrays = read_arrays(self.path)
        else:
            texts, *of_classes = self.read_documents()
            logger.info("Embedding the %d documents of %s.", len(texts), self.path)
            x = embed_texts(texts, self.model, self.batch_size)
            if self.words:
                x = WordFeatures(self.words).fit(texts).beside(x, texts)
            arrays = (x, *of_classes)
        try:
            return labelled_points(*arrays)
        except (TypeError, ValueError) as error:
            raise type(error)(f"In '{self.path}': {error}") from error


def kind_of(path: Path) -> str:
    """Return the suffix of a file in lower case, without a ``.gz``."""
    return Path(path.name.lower().removesuffix(".gz")).suffix
