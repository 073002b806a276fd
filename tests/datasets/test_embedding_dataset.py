import gzip
import shutil

import numpy as np
import pytest
import torch

from jsem_pyg.datasets import EmbeddingDataset, embedder


@pytest.fixture
def fake_model(monkeypatch):
    """Embeds a text as its length, and records the calls."""
    calls = []

    def embed(model, texts):
        calls.append((texts, model))
        return torch.tensor([[float(len(text))] for text in texts])

    monkeypatch.setattr(embedder, "load_encoder", lambda model: model)
    monkeypatch.setattr(embedder, "encode", embed)
    return calls


def test_embeddings_with_labels(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.eye(3), y=[1, 0, 1], target_names=["a", "b"])
    (tmp_path / "a.npz").rename(tmp_path / "A.NPZ")
    dataset = EmbeddingDataset(tmp_path / "root", str(tmp_path / "A.NPZ"))
    assert dataset[0].y.tolist() == [1, 0, 1]
    assert dataset.classes == ["a", "b"]
    assert dataset.num_classes == 2


def test_lines(tmp_path, fake_model):
    (tmp_path / "a.txt").write_text("one\n\nthree\n")
    data = EmbeddingDataset(tmp_path / "root", tmp_path / "a.txt", "org/name")[0]
    assert data.x.tolist() == [[3], [0], [5]]
    assert fake_model == [(["one", "", "three"], "org/name")]


def test_tables(tmp_path, fake_model):
    (tmp_path / "a.csv").write_text("title,body,kind\na,b,sky\nc,d,sea\n")
    columns = {"text_columns": ["title", "body"], "label_column": "kind"}
    dataset = EmbeddingDataset(tmp_path / "root", tmp_path / "a.csv", **columns)
    assert fake_model[0][0] == ["a b", "c d"]
    assert dataset[0].y.tolist() == [1, 0]
    assert dataset.classes == ["sea", "sky"]


def test_the_kind_of_a_packed_file_is_part_of_its_name(tmp_path, fake_model):
    content = gzip.compress(b"text\tmore\na,b\tc\n")
    for name, texts in (
        ("a.txt.gz", ["text\tmore", "a,b\tc"]),
        ("a.csv.gz", ["a,b"]),
        ("a.tsv.gz", ["a,b"]),
    ):
        (tmp_path / name).write_bytes(content)
        EmbeddingDataset(tmp_path / name[:-3], tmp_path / name)
        assert fake_model[-1][0] == texts, name
    assert len(fake_model) == 3


def test_what_changes_the_points_embeds_again_and_nothing_else_does(tmp_path, fake_model):
    path, copy = tmp_path / "a.csv", tmp_path / "b.csv"
    path.write_text("text,b\nxxxx,yy\n")
    shutil.copy(path, copy)

    def points(path, *args, **kwargs):
        return EmbeddingDataset(tmp_path / "root", path, *args, **kwargs)[0].x.tolist()

    assert points(path) == points(copy) == [[4]]
    assert len(fake_model) == 1
    assert points(path, "org/name") == [[4]]
    assert points(path, text_columns="b") == [[2]]
    path.write_text("text,b\nxxxx,yy\nzzz,z\n")
    assert points(path) == [[4], [3]]
    assert len(fake_model) == 4


def test_bad_paths_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"'path' to be an existing file .*none\.npy"):
        EmbeddingDataset(tmp_path, tmp_path / "none.npy")
    (tmp_path / "a.doc").write_text("")
    with pytest.raises(ValueError, match=r"a file that ends in .*\.tsv.*\(got 'a\.doc"):
        EmbeddingDataset(tmp_path, tmp_path / "a.doc")


def test_errors_name_the_file(tmp_path, fake_model):
    np.savez(tmp_path / "b.npz", x=np.eye(3), y=[0, 1])
    with pytest.raises(ValueError, match=r"In '.*b\.npz': Expected 'y' to have shape \[3\]"):
        EmbeddingDataset(tmp_path, tmp_path / "b.npz")
    (tmp_path / "c.csv").write_text("label,text\n-1,a\n0,b\n")
    with pytest.raises(ValueError, match=r"In '.*c\.csv': .*class indices .* from -1 to 0"):
        EmbeddingDataset(tmp_path, tmp_path / "c.csv")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"path": "a.npy", "model": "org/name"}, ValueError, "no 'model' with arrays"),
        ({"path": 3}, TypeError, "'path' to be a path"),
        ({"path": "."}, FileNotFoundError, "'path' to be an existing file"),
        ({"model": 3}, TypeError, "'model' to be a path"),
        ({"text_columns": []}, TypeError, "'text_columns' to be"),
        ({"label_column": 1}, ValueError, "'label_column' to name columns"),
    ],
)
def test_bad_arguments_are_refused(tmp_path, monkeypatch, fake_model, arguments, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("a,b\nx,yy\n")
    np.save("a.npy", np.eye(3))
    with pytest.raises(error, match=message):
        EmbeddingDataset(**{"root": tmp_path / "root", "path": "a.csv", **arguments})
    assert not fake_model
