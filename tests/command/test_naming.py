from pathlib import Path

import numpy as np
import pandas as pd
from command.command_cases import TOPICS, documents, run, use_fake_encoder


def names_of(file, number):
    """What a map calls its clusters, by row."""
    result = run("map", file, "-k", number, "--layout", "none", "-o", "out")
    assert result.exit_code == 0, result.output
    return pd.read_csv("out/clusters.csv").name


def test_names_are_of_words_that_set_clusters_apart(monkeypatch):
    use_fake_encoder(monkeypatch)
    texts, topics = documents()
    Path("texts.txt").write_text("\n".join(texts))
    names = names_of("texts.txt", 3)
    for topic, words in TOPICS.items():
        name = names[np.array(topics) == topic].mode()[0]
        assert len(name.split(", ")) == 4
        assert set(name.split(", ")) <= set(words.split())


def test_a_word_and_its_plural_are_one(monkeypatch):
    use_fake_encoder(monkeypatch)
    texts = ["ship ships", "ships ship harbour", "harbour ship", "cake", "cakes cake", "cake cakes"]
    Path("texts.txt").write_text("\n".join(texts))
    assert names_of("texts.txt", 2).tolist() == 3 * ["ship, harbour"] + 3 * ["cake"]


def test_clusters_without_words_have_their_number(monkeypatch):
    use_fake_encoder(monkeypatch)
    Path("texts.txt").write_text("\n".join(["1", "1 1", "1 1 1", "sea", "sea sea", "sea sea sea"]))
    names = names_of("texts.txt", 2)
    assert set(names[:3]) <= {"cluster 0", "cluster 1"}
    assert set(names[3:]) == {"sea"}


def test_clusters_of_columns_have_names_of_their_own():
    x = np.repeat([[9.0, 0, 0, 5], [9, 0, 5, 5], [-9, 0, 0, 0], [-9, 0, 5, 0]], 20, axis=0)
    x += np.random.default_rng(0).normal(size=x.shape) / 10
    pd.DataFrame(x, columns=list("abcd")).to_csv("columns.csv", index=False)
    names = names_of("columns.csv", 4)
    assert [len(set(names[20 * i : 20 * i + 20])) for i in range(4)] == [1, 1, 1, 1]
    assert names.nunique() == 4
