"""Files, a tiny embedder and a way to call the command."""

import hashlib
import sys
from unittest.mock import patch

import numpy as np
from click.testing import CliRunner

from jsem_pyg.command import main, make_map
from jsem_pyg.datasets import embedder

TOPICS = {
    "sea": "sailing ships harbour waves tide anchor captain storm",
    "kitchen": "bread butter oven flour recipe baking sugar dough",
    "music": "violin orchestra melody concert piano rhythm singer opera",
}


def run(*words):
    """What `jsem-pyg` does with these words: its exit code and all its output."""
    words = list(map(str, words))
    with patch.object(sys, "argv", ["jsem-pyg", *words]):
        return CliRunner().invoke(main, words)


def documents(each=14):
    """Some documents of each topic, and their topics, mixed."""
    draw = np.random.default_rng(0)
    pairs = [
        (topic, " ".join(["the", *draw.choice(words.split(), 5, replace=False)]))
        for topic, words in TOPICS.items()
        for _ in range(each)
    ]
    draw.shuffle(pairs)
    topics, texts = zip(*pairs, strict=True)
    return list(map(str, texts)), list(map(str, topics))


def vectors(each=20, dimension=6):
    """Points around two corners, and which."""
    draw = np.random.default_rng(0)
    y = np.arange(2 * each) % 2
    return np.eye(dimension)[y] + 0.1 * draw.normal(size=(2 * each, dimension)), y


class FakeEncoder:
    """A bag of words in 32 dimensions; counts what it embeds."""

    embedded = 0

    def encode(self, texts, batch_size, show_progress_bar):
        FakeEncoder.embedded += len(texts)
        x = np.zeros((len(texts), 32), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.split():
                x[row, hashlib.md5(word.encode()).digest()[0] % 32] += 1
        return x


def use_fake_encoder(monkeypatch):
    FakeEncoder.embedded = 0
    monkeypatch.setattr(make_map, "check_installed", lambda model: None)
    monkeypatch.setattr(embedder, "load_encoder", lambda model: FakeEncoder())
