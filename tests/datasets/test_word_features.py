import numpy as np
import pytest
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from jsem_pyg.datasets import WordFeatures

WORDS = ["cat", "dog", "tax", "law", "sea", "sky", "sun", "ice"]
TEXTS = [" ".join(np.random.default_rng(i).choice(WORDS, 4)) for i in range(40)]


def normalized(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def cosine(x):
    unit = torch.nn.functional.normalize(x)
    return unit @ unit.T


@pytest.mark.parametrize("dim", [3, 300])
def test_the_columns_are_those_of_scikit_learn(dim):
    tfidf = TfidfVectorizer(sublinear_tf=True, stop_words="english", min_df=2)
    expected = tfidf.fit_transform(TEXTS)
    if dim == 3:
        expected = TruncatedSVD(3, random_state=0).fit_transform(expected)
    else:
        expected = expected.toarray()
    found = WordFeatures(dim=dim).fit(TEXTS).transform(TEXTS)
    np.testing.assert_allclose(found, normalized(expected), atol=1e-5)


def test_words_stand_beside_embeddings():
    x = torch.randn(40, 5) * 7
    words = WordFeatures(weight=0.5, dim=3).fit(TEXTS)
    both = words.beside(x, TEXTS)
    torch.testing.assert_close(both.norm(dim=1), torch.ones(40))
    expected = (cosine(x) + 0.25 * cosine(words.transform(TEXTS))) / 1.25
    torch.testing.assert_close(both @ both.T, expected)
    none = WordFeatures(weight=0).fit(TEXTS).beside(x, TEXTS)
    torch.testing.assert_close(none, torch.nn.functional.normalize(x))


def test_a_document_has_the_same_columns_alone_and_after_a_reload():
    words = WordFeatures(dim=3).fit(TEXTS)
    again = WordFeatures(dim=3).load_state(words.state())
    torch.testing.assert_close(again.transform(TEXTS[:1]), words.transform(TEXTS)[:1])
    assert again.transform(["unknown words only", ""]).count_nonzero() == 0


def test_documents_that_share_no_word_have_no_columns():
    words = WordFeatures().fit(["cat", "dog"])
    assert words.transform(["cat"]).shape == (1, 0)
    assert words.beside(torch.ones(1, 4), ["cat"]).tolist() == [[0.5] * 4]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: WordFeatures(-1), ValueError, "'weight'"),
        (lambda: WordFeatures(float("nan")), ValueError, "'weight'"),
        (lambda: WordFeatures(dim=0), ValueError, "'dim'"),
        (lambda: WordFeatures().fit("a text"), TypeError, "got str"),
        (lambda: WordFeatures().transform(["a"]), RuntimeError, r"call fit\(texts\)"),
        (lambda: WordFeatures().fit(TEXTS).beside(torch.ones(2, 3), ["a"]), ValueError, "'x'"),
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
