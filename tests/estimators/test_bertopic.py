"""`DiffusionClusterer` in the place of BERTopic's HDBSCAN, with the real package."""

import numpy as np
import pytest
from lazily import Lazily
from sklearn.metrics import adjusted_rand_score

from jsem_pyg.estimators import DiffusionClusterer

bertopic = Lazily("bertopic")

WORDS = ("stars planet orbit", "bread flour oven", "goal match referee", "court judge law")
Y = np.arange(120) % 4
NEW = np.arange(12) % 4


def documents(y, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.permutation([*WORDS[each].split(), "the", "a"])) for each in y]


def embeddings(y, seed=0):
    return np.eye(64)[y] + 0.06 * np.random.default_rng(seed).normal(size=(len(y), 64))


@pytest.fixture(scope="module")
def fitted():
    return fit(0)


def fit(seed):
    clusterer = DiffusionClusterer(n_neighbors=8, max_clusters=6, random_state=seed)
    model = bertopic.BERTopic(
        hdbscan_model=clusterer,
        umap_model=bertopic.dimensionality.BaseDimensionalityReduction(),
        calculate_probabilities=True,
    )
    topics, probabilities = model.fit_transform(documents(Y), embeddings(Y))
    return model, clusterer, np.array(topics), probabilities


def test_every_document_has_a_topic_and_its_words(fitted):
    model, _, topics, _ = fitted
    assert -1 not in topics
    assert adjusted_rand_score(Y, topics) == 1
    words = {frozenset(word for word, _ in model.get_topic(topic)[:3]) for topic in range(4)}
    assert words == {frozenset(group.split()) for group in WORDS}


def test_probabilities_follow_the_topics_and_two_runs_are_alike(fitted):
    _, _, topics, probabilities = fitted
    assert probabilities.shape == (len(Y), 4)
    np.testing.assert_array_equal(probabilities.argmax(1), topics)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(fit(0)[2], topics)


def test_new_documents_get_the_topics_of_their_kind(fitted):
    model, _, topics, _ = fitted
    new, _ = model.transform(documents(NEW, 1), embeddings(NEW, 1))
    np.testing.assert_array_equal(new, topics[:12])


def test_the_hierarchy_of_topics_is_that_of_the_tree_and_topics_are_reduced(fitted):
    model, clusterer, topics, _ = fitted
    linkage = clusterer.tree_.linkage_of(topics)
    table = model.hierarchical_topics(documents(Y), linkage_function=lambda _: linkage)
    assert len(table) == 3
    first = table.iloc[-1]  # the first merge stands last
    np.testing.assert_allclose(table["Distance"].max(), linkage[-1, 2])
    assert sorted(first["Topics"]) == sorted(int(each) for each in linkage[0, :2])
    other = fit(0)[0].reduce_topics(documents(Y), nr_topics=3)
    assert set(other.topics_) == {0, 1, 2}
