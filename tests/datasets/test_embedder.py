import os
from pathlib import Path

import pytest
import torch
from command.command_cases import FakeEncoder, documents, use_fake_encoder

from jsem_pyg.datasets import EmbeddingDataset

TEXTS = [f"{text} {number}" for number in range(7) for text in documents()[0]]  # in two blocks


@pytest.fixture(autouse=True)
def _fake(monkeypatch, tmp_path):
    use_fake_encoder(monkeypatch)
    monkeypatch.chdir(tmp_path)


def embed(texts, model=None):
    Path("texts.txt").write_text("\n".join(texts))
    x = EmbeddingDataset("root", "texts.txt", model)[0].x
    assert len(x) == len(texts)
    return x


def test_what_is_embedded_is_read_the_next_time():
    x = embed(TEXTS)
    assert FakeEncoder.embedded == len(TEXTS)
    torch.testing.assert_close(embed(TEXTS), x, rtol=0, atol=0)
    assert FakeEncoder.embedded == len(TEXTS)
    embed([*TEXTS, "one more"])  # the blocks before the last are there
    assert FakeEncoder.embedded <= len(TEXTS) + 256


def test_another_text_or_model_is_another_block(tmp_path):
    embed(TEXTS[:4])
    embed([*TEXTS[:3], "changed"])
    assert FakeEncoder.embedded == 8
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_text("1")
    embed(TEXTS[:4], str(model))
    assert FakeEncoder.embedded == 12
    os.utime(model / "weights", ns=(1, 1))  # as a copy has another time
    embed(TEXTS[:4], str(model))
    assert FakeEncoder.embedded == 12
    (model / "weights").write_text("2")
    os.utime(model / "weights", ns=(1, 1))  # as all files of some archives have
    embed(TEXTS[:4], str(model))
    assert FakeEncoder.embedded == 16


def test_a_damaged_block_is_embedded_anew(caplog):
    x = embed(TEXTS[:4])
    [block] = Path("root/embeddings").iterdir()
    block.write_bytes(block.read_bytes()[:-1])
    torch.testing.assert_close(embed(TEXTS[:4]), x, rtol=0, atol=0)
    assert "Embedding it anew" in caplog.text


def test_a_block_in_the_place_of_another_is_embedded_anew(caplog):
    x, other = embed(TEXTS[:4]), embed(TEXTS[4:8])
    one, two = Path("root/embeddings").iterdir()
    one_bytes, two_bytes = one.read_bytes(), two.read_bytes()
    one.write_bytes(two_bytes)
    two.write_bytes(one_bytes)
    torch.testing.assert_close(embed(TEXTS[:4]), x, rtol=0, atol=0)
    torch.testing.assert_close(embed(TEXTS[4:8]), other, rtol=0, atol=0)
    assert caplog.text.count("Embedding it anew") == 2
