"""Add the words of documents to their embeddings."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .._checks import check_nonnegative, check_positive_int
from .._precision import unit_rows
from .text import check_texts

_MAX_WORDS = 20_000


class WordFeatures:
    """Adds TF-IDF of words, reduced by latent semantic analysis (Deerwester et al. 1990), to x.

    Embeddings of sentences blur what a word states plainly, a product's name for instance. Rows of
    TF-IDF (logarithmic counts; of words in two documents or more the 20,000 commonest, without
    English stop words) are reduced to `dim` columns by a truncated SVD and scaled to length one.
    They stand beside the embeddings, of length one, at `weight`; then rows get length one.

    Args:
        weight: length of the columns of words, relative to that of the embedding; 0 leaves the
            embeddings alone. 0.5 was chosen on AG News.
        dim: number of columns at most.

    Example:
        >>> texts = ["a cat sat", "the cat ran", "tax form", "a tax law"]
        >>> words = WordFeatures(weight=0.5).fit(texts)
        >>> words.beside(torch.eye(4, 3), texts).shape
        torch.Size([4, 5])
    """

    def __init__(self, weight: float = 0.5, dim: int = 300) -> None:
        check_nonnegative("weight", weight)
        check_positive_int("dim", dim)
        self.weight = float(weight)
        self.dim = dim
        self._state: dict[str, Any] | None = None

    def fit(self, texts: Sequence[str]) -> "WordFeatures":
        """Learn the words, how rare they are, and the columns, of N documents."""
        from sklearn.decomposition import TruncatedSVD  # takes a second, which importing must not

        texts = check_texts(texts)
        vectorizer = _vectorizer(min_df=2, max_features=_MAX_WORDS)
        try:
            counts = vectorizer.fit_transform(texts)
        except ValueError:  # no word occurs in two documents
            self._state = {"words": [], "idf": torch.zeros(0), "columns": torch.zeros(0, 0)}
            return self
        words = vectorizer.get_feature_names_out().tolist()
        if self.dim < len(words):
            columns = TruncatedSVD(self.dim, random_state=0).fit(counts).components_.T
        else:
            columns = np.eye(len(words))
        idf = torch.from_numpy(vectorizer.idf_)
        reduction = torch.from_numpy(columns.astype(np.float32))
        self._state = {"words": words, "idf": idf, "columns": reduction}
        return self

    def transform(self, texts: Sequence[str]) -> Tensor:
        """Compute the word features [M, d], d <= `dim`, rows of length one or zero."""
        texts, state = check_texts(texts), self.state()
        if not state["words"]:
            return torch.zeros(len(texts), 0)
        vectorizer = _vectorizer(vocabulary=state["words"])
        vectorizer.idf_ = state["idf"].numpy()
        reduced = vectorizer.transform(texts) @ state["columns"].numpy()
        return F.normalize(torch.from_numpy(reduced).float())

    def beside(self, x: Tensor, texts: Sequence[str]) -> Tensor:
        """Append the features of documents to embeddings: [M, D + d], rows of length one."""
        if x.dim() != 2 or len(x) != len(texts):
            raise ValueError(f"Expected 'x' to have {len(texts)} rows (got {list(x.shape)}).")
        embedding = unit_rows(x.float())
        if self.weight == 0:
            return embedding
        words = self.weight * self.transform(texts).to(x.device)
        return unit_rows(torch.cat([embedding, words], dim=1))

    def state(self) -> dict[str, Any]:
        """Return the fitted state: words, their inverse document frequencies and columns."""
        if self._state is None:
            raise RuntimeError("Expected fitted WordFeatures. To fix this, call fit(texts) first.")
        return self._state

    def load_state(self, state: dict[str, Any]) -> "WordFeatures":
        """Restore what `state()` of a fitted object returned."""
        self._state = state
        return self


def _vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, stop_words="english", **options)
