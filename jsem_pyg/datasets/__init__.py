"""Stage 0: documents, pictures, files -> one ``Data`` with embeddings x [N, D] and labels y [N].

``DigitsDataset`` needs no file, ``TwentyNewsgroups`` text or ready embeddings, and
``EmbeddingDataset`` takes embeddings or documents of your own, which ``embed_texts`` embeds, with
``WordFeatures`` beside.
"""

from .digits import DigitsDataset
from .embedding_dataset import EmbeddingDataset
from .text import embed_texts
from .twenty_newsgroups import TwentyNewsgroups
from .word_features import WordFeatures

__all__ = ["DigitsDataset", "EmbeddingDataset", "TwentyNewsgroups", "WordFeatures", "embed_texts"]
