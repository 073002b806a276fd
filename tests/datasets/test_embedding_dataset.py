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


@pytest.mark.parametrize("name", ["x", "embeddings", "arr_0"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_embeddings_with_labels(tmp_path, name, dtype):
    arrays = {name: np.eye(3, dtype=dtype), "y": [1, 0, 1], "target_names": ["a", "b"]}
    np.savez(tmp_path / "a.npz", **arrays, index=[7, 8, 9])
    (tmp_path / "a.npz").rename(tmp_path / "A.NPZ")
    dataset = EmbeddingDataset(tmp_path / "root", str(tmp_path / "A.NPZ"))
    assert dataset[0].x.dtype == torch.float32
    assert dataset[0].x.tolist() == np.eye(3).tolist()
    assert dataset[0].y.tolist() == [1, 0, 1]
    assert dataset.classes == ["a", "b"]
    assert dataset.num_classes == 2


def test_one_document_a_line_whatever_the_line_holds(tmp_path, fake_model, caplog):
    text = "\ufeffén\r\n\r\nto\ftre\u2028fire\nfem"
    (tmp_path / "a.txt").write_bytes(text.encode())
    data = EmbeddingDataset(tmp_path / "root", tmp_path / "a.txt", "org/name")[0]
    assert data.x.tolist() == [[2], [0], [11], [3]]
    assert data.y is None
    assert fake_model == [(["én", "", "to\ftre\u2028fire", "fem"], "org/name")]
    assert "1 of 4 documents are empty" in caplog.text


@pytest.mark.parametrize(
    ("name", "text", "options", "texts", "y", "classes"),
    [
        (
            "a.csv",
            'a,b,kind\nx,007,sky\n"y, z",008,sea\n',
            {"text_columns": ("b", "a"), "label_column": "kind"},
            ["007 x", "008 y, z"],
            [1, 0],
            ["sea", "sky"],
        ),
        ("a.csv", "text,n\na,3\n", {"text_columns": "n"}, ["3"], None, []),
        ("a.csv", "text,label\na,01\nb,1\nc,2\n", {}, ["a", "b", "c"], [0, 1, 2], ["01", "1", "2"]),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": null, "label": 2}\n{"label": 1}\n',
            {},
            ["a", "", ""],
            [1, 2, 1],
            ["0", "1", "2"],
        ),
    ],
)
def test_tables(tmp_path, fake_model, name, text, options, texts, y, classes):
    (tmp_path / name).write_text(text)
    dataset = EmbeddingDataset(tmp_path / "root", tmp_path / name, **options)
    assert fake_model[0][0] == texts
    assert y is None or dataset[0].y.tolist() == y
    assert dataset.classes == classes


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


X = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": [[np.nan, 1.0]]}, "'x' to be finite"),
        ({"x": [[1e300, 1.0]]}, "'x' to be finite"),
        ({"x": np.ones(3)}, "'x' to have shape"),
        ({"x": np.ones((2, 3), int)}, "'x' to be a floating-point"),
        ({"x": np.full((2, 3), "a")}, "'x' to hold numbers"),
        ({"x": X, "y": [0, 1]}, r"'y' to have shape \[3\]"),
        ({"x": X, "y": [0.0, 1.0, 0.0]}, "'y' to hold integers or text"),
        ({"x": X, "y": [-1, 0, 1]}, "class indices in"),
        ({"x": X, "y": [0, 1, 10**9]}, "class indices in"),
        ({"x": X, "y": [0, 1, 2], "target_names": ["a", "b"]}, r"class indices in \[0, 2\)"),
        ({"x": X, "y": ["a", "b", "a"], "target_names": ["a", "b"]}, "indices only"),
        ({"x": X, "y": [1, 0, 1], "classes": ["sky", "sea", "sky"]}, "name each class once"),
        ({"z": X}, r".*got z"),
    ],
)
def test_bad_arrays_are_refused_with_the_name_of_the_file(tmp_path, arrays, message):
    np.savez(tmp_path / "b.npz", **arrays)
    with pytest.raises((TypeError, ValueError), match=rf"b\.npz.*{message}"):
        EmbeddingDataset(tmp_path / "root", tmp_path / "b.npz")


@pytest.mark.parametrize(
    ("name", "text", "options", "message"),
    [
        ("a.csv", "a,b\nx,y\n", {"text_columns": "c"}, r"'text_columns'.* in .*got \['c'\]"),
        ("a.csv", "label,n\n0,1\n", {}, r"in \['label', 'n'\] .got \['text'\]"),
        ("a.csv", "label,text\n0,a\n,b\n", {}, "got 1 of 2"),
        ("a.csv", "label,text\n-1,a\n0,b\n", {}, r"In '.*a\.csv': .*class indices .* .got -1 to 0"),
        ("a.csv", "text\n", {}, "at least one document"),
        ("a.txt", "", {}, r"a file with rows .*a\.txt', which is empty"),
        ("a.txt", "é", {}, r"a\.txt' to be text in utf-8"),
    ],
)
def test_bad_tables_are_refused(tmp_path, fake_model, name, text, options, message):
    (tmp_path / name).write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=message):
        EmbeddingDataset(tmp_path / "root", tmp_path / name, **options)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"path": "a.npy", "model": "org/name"}, ValueError, "no 'model' with arrays"),
        ({"path": 3}, TypeError, "'path' to be a path"),
        ({"path": "."}, FileNotFoundError, "'path' to be an existing file"),
        ({"model": 3}, TypeError, "'model' to be a path"),
        ({"text_columns": []}, TypeError, "'text_columns' to be"),
        ({"label_column": 1}, ValueError, "'label_column' in "),
    ],
)
def test_bad_arguments_are_refused(tmp_path, monkeypatch, fake_model, arguments, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("a,b\nx,yy\n")
    np.save("a.npy", np.eye(3))
    with pytest.raises(error, match=message):
        EmbeddingDataset(**{"root": tmp_path / "root", "path": "a.csv", **arguments})
    assert not fake_model
