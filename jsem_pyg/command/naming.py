"""Name clusters of texts by the words that set one apart from the others."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_WORDS = 4  # in a name
# How many times as frequent a word has to be in the cluster as in all documents, or half as much
# above one as it can be in a large cluster.
_LIFT = 2
_FEWEST = 2  # documents of a cluster that a word has to be in
_SHARE = 0.01  # of its documents, likewise
_WORD = r"(?u)\b[^\W\d_][\w'-]*\w\b"  # begins with a letter, so that numbers name nothing


def name_clusters(texts: Sequence[str], clusters: NDArray[np.int64], count: int) -> list[str]:
    r"""Name each cluster by the words whose class-based TF-IDF is highest.

    .. math::
        \frac{n_{wc}}{\sum_v n_{vc}} \log\Bigl(1 + \frac{A}{\sum_c n_{wc}}\Bigr)

    for a word w in :math:`n_{wc}` documents of the cluster c, where A is the mean of
    :math:`\sum_v n_{vc}` over the clusters. A document counts a word once, however often it repeats
    it. Left out are words that are hardly more frequent in the cluster than in all documents, as
    those are that hold any language together, words of hardly any of its documents, and English
    stop words. A cluster without another word is called by its number.

    Source: Grootendorst, "BERTopic: Neural topic modeling with a class-based TF-IDF procedure",
    2022.
    """
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer
    from sklearn.preprocessing import normalize

    counter = CountVectorizer(
        binary=True, token_pattern=_WORD, stop_words=sorted(ENGLISH_STOP_WORDS), dtype=np.float64
    )
    try:
        in_documents = counter.fit_transform(texts)  # [M, W]
    except ValueError:  # not a word in them
        return [f"cluster {cluster}" for cluster in range(count)]
    ones = np.ones(len(clusters))
    member = csr_matrix((ones, (clusters, np.arange(len(clusters)))), shape=(count, len(clusters)))
    in_clusters = np.asarray((member @ in_documents).todense())  # [C, W]
    size = np.bincount(clusters, minlength=count)[:, None]
    in_all = in_clusters.sum(0)
    tf = normalize(in_clusters, norm="l1")
    score = tf * np.log1p(in_clusters.sum(1).mean() / in_all)
    words_of = in_clusters.sum(1, keepdims=True)
    most = words_of.sum() / np.maximum(words_of, 1)  # of a word that is in this cluster alone
    score[tf < np.minimum(_LIFT, (1 + most) / 2) * in_all / in_all.sum()] = 0
    score[in_clusters < np.maximum(_FEWEST, _SHARE * size)] = 0
    vocabulary = counter.get_feature_names_out()
    return [_join(vocabulary, row) or f"cluster {cluster}" for cluster, row in enumerate(score)]


def _join(vocabulary: np.ndarray, score: np.ndarray) -> str:
    """Join the best words, without a word that is another one with an ending."""
    chosen: dict[str, str] = {}  # by what is left without it
    for i in np.argsort(-score, kind="stable"):
        if score[i] <= 0 or len(chosen) == _WORDS:
            break
        word = str(vocabulary[i])
        chosen.setdefault(re.sub(r"('s|s)$", "", word), word)
    return ", ".join(chosen.values())
