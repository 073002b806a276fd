import numpy as np
from command.command_cases import TOPICS, documents

from jsem_pyg.command.naming import name_clusters
from jsem_pyg.estimators.columns import name_by_columns


def test_names_are_of_words_that_set_clusters_apart():
    texts, topics = documents()
    order = sorted(TOPICS)
    names = name_clusters(texts, np.array([order.index(topic) for topic in topics]), 3)
    for topic, name in zip(order, names, strict=True):
        assert len(name.split(", ")) == 4
        assert set(name.split(", ")) <= set(TOPICS[topic].split())


def test_a_word_and_its_plural_are_one():
    texts = ["ship ships", "ships ship harbour", "harbour ship", "cake", "cakes cake", "cake cakes"]
    names = name_clusters(texts, np.array([0, 0, 0, 1, 1, 1]), 2)
    assert names == ["ship, harbour", "cake"]


def test_clusters_without_words_have_their_number():
    assert name_clusters(["1 2", "3"], np.array([0, 1]), 2) == ["cluster 0", "cluster 1"]
    assert name_clusters(["sea sea", "sea", "9"], np.array([0, 0, 1]), 2)[1] == "cluster 1"


def test_clusters_of_columns_have_names_of_their_own():
    x = np.repeat([[9.0, 0, 0, 5], [9, 0, 5, 5], [-9, 0, 0, 0], [-9, 0, 0, 0]], 20, axis=0)
    names = name_by_columns(x + np.linspace(0, 0.1, 80)[:, None], np.arange(80) // 20, list("abcd"))
    assert len(set(names)) == 4
