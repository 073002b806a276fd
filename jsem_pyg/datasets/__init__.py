"""Stage 0: load documents, pictures or files as a ``Data`` of points x [N, D] and labels y [N].

``DigitsDataset`` needs no file, ``EmbeddingDataset`` takes embeddings or documents of your own.
Documents are embedded by ``embed_texts``; ``WordFeatures`` adds their words.
"""

from .embedding_dataset import EmbeddingDataset
from .points import DigitsDataset
from .text import embed_texts
from .word_features import WordFeatures

__all__ = ["DigitsDataset", "EmbeddingDataset", "WordFeatures", "embed_texts"]
