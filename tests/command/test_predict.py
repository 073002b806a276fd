import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command.command_cases import TOPICS, FakeEncoder, documents, run, use_fake_encoder, vectors
from sklearn.metrics import adjusted_rand_score

from jsem_pyg.estimators import DiffusionClusterer

QUICK = ("--layout", "none")


def predict(*words):
    result = run("predict", *words, "-o", "out.csv")
    assert result.exit_code == 0, result.output
    return pd.read_csv("out.csv", keep_default_na=False)


def refused(*words):
    result = run("predict", *words)
    assert result.exit_code == 1, result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """A folder with documents.csv and points.npy, and a map of each."""
    folder = tmp_path_factory.mktemp("maps")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("JSEM_PYG_CACHE", "cache")
        use_fake_encoder(patch)
        table = pd.DataFrame({"id": range(42), "body": documents()[0]})
        table.to_csv("documents.csv", index=False)
        np.save("points.npy", vectors()[0])
        assert run("map", "documents.csv", "-k", "3", *QUICK).exit_code == 0
        assert run("map", "points.npy", "-k", "2", *QUICK).exit_code == 0
    return folder


@pytest.fixture(autouse=True)
def _beside_the_maps(maps, monkeypatch):
    monkeypatch.chdir(maps)
    use_fake_encoder(monkeypatch)


@pytest.fixture
def text_map():
    return pd.read_csv("documents-map/clusters.csv")


def test_what_was_mapped_has_the_cluster_that_it_has(text_map):
    embedded = FakeEncoder.embedded
    pd.testing.assert_frame_equal(
        predict("documents-map", "documents.csv", "--cache", "cache"),
        text_map,
        check_dtype=False,
        atol=0.02,  # two that have the same embedding are one point
    )
    assert FakeEncoder.embedded == embedded


def test_new_documents_go_to_the_cluster_of_their_words(text_map):
    new = {name: f"the {' '.join(words.split()[:5])}" for name, words in TOPICS.items()}
    Path("new.txt").write_text("\n".join([*new.values(), "", text_map.body[0]]) + "\n")
    found = predict("documents-map", "new.txt")
    assert found.row.tolist() == [0, 1, 2, 3, 4]
    for name, words in zip(found.name, TOPICS.values(), strict=False):
        assert set(name.split(", ")) <= set(words.split())
    assert found.cluster[3] == ""
    assert int(found.cluster[4]) == text_map.cluster[0]
    Path("one.txt").write_text(next(iter(new.values())) + "\n")  # others change nothing
    alone = predict("documents-map", "one.txt")
    pd.testing.assert_frame_equal(alone, found[:1].astype({"probability": float, "cluster": int}))


def test_a_number_that_is_missing_is_named_and_its_row_in_no_cluster():
    table = pd.DataFrame(vectors(12)[0], columns=list("abcdef"))
    table.to_csv("table.csv", index=False)
    assert run("map", "table.csv", "-k", "2", *QUICK).exit_code == 0
    for missing in ([0], [0, 2], list(range(6))):
        row = table.iloc[:1].copy()
        row.iloc[0, missing] = np.nan
        row.to_csv("row.csv", index=False)
        names = ", ".join(row.columns[missing])
        result = run("predict", "table-map", "row.csv", "-o", "out.csv")
        assert f"1 row is in no cluster: missing is {names}." in " ".join(result.output.split())
        assert pd.read_csv("out.csv").cluster.isna().all()


@pytest.mark.parametrize("documents", [["12", "a b"], ["1", "2.5", ""]])
def test_what_a_document_is_does_not_depend_on_the_others(documents):
    pd.DataFrame({"body": documents}).to_csv("few.csv", index=False, quoting=1)
    found = predict("documents-map", "few.csv")
    alone = []
    for text in documents:
        pd.DataFrame({"body": [text]}).to_csv("one.csv", index=False, quoting=1)
        alone.append(predict("documents-map", "one.csv").iloc[0])
    assert found.cluster.astype(str).tolist() == [str(each.cluster) for each in alone]
    assert [each == "" for each in found.cluster] == [text == "" for text in documents]


def test_a_column_of_another_name_is_taken_if_it_is_the_only_one(text_map):
    pd.DataFrame({"text": ["ships in a harbour"]}).to_csv("new.csv", index=False)
    assert len(predict("documents-map", "new.csv")) == 1  # the only one
    pd.DataFrame({"text": ["ships in a harbour"], "id": 7}).to_csv("new.csv", index=False)
    assert "Expected a column 'body' (got a file with 'text', 'id')" in refused(
        "documents-map", "new.csv"
    )
    np.save("x.npy", np.ones((2, 32)))
    assert "Expected text in the column 'x' (got lists" in refused("documents-map", "x.npy")


def test_a_changed_model_is_refused(text_map, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_text("1")
    words = ("map", "documents.csv", "-k", "3", "--model", model, "-o", "mine", *QUICK)
    assert run(*words).exit_code == 0
    assert len(predict("mine", "documents.csv")) == 42
    (model / "weights").write_text("12")
    assert "as it was when the map was made" in refused("mine", "documents.csv")
    model.rename(tmp_path / "moved")
    assert "got no such folder here" in refused("mine", "documents.csv")


def test_vectors_are_assigned_by_the_estimator():
    new, _ = vectors(5)
    np.savez("new.npz", x=new)
    clusterer = DiffusionClusterer.load("points-map/clusterer.safetensors")
    found = predict("points-map", "new.npz")
    assert found.cluster.tolist() == clusterer.predict(new.astype(np.float32)).tolist()
    np.save("wide.npy", np.ones((2, 7)))
    assert "X has 7 features" in refused("points-map", "wide.npy")
    np.save("nan.npy", np.full((2, 6), np.nan))
    assert (predict("points-map", "nan.npy").cluster == "").all()


@pytest.fixture
def copy_of_map(tmp_path):
    return Path(shutil.copytree("documents-map", tmp_path / "documents-map"))


def empty(path):
    path.write_bytes(b"")


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)


def a_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", ["clusterer.safetensors", "map.safetensors"])
@pytest.mark.parametrize("damage", [Path.unlink, empty, cut, flip, a_folder])
def test_a_damaged_folder_is_refused_in_a_line(copy_of_map, name, damage):
    damage(copy_of_map / name)
    said = refused(copy_of_map, "documents.csv")
    assert name in said
    assert "Aborted" not in said


def test_words_tell_apart_what_the_encoder_blurs(tmp_path, monkeypatch):
    """An encoder that gives every document nearly the same vector: only the words differ."""

    def blurred(self, texts, batch_size, show_progress_bar):
        draw = np.random.default_rng(len(texts))
        return (1 + 1e-3 * draw.normal(size=(len(texts), 32))).astype(np.float32)

    monkeypatch.setattr(FakeEncoder, "encode", blurred)
    monkeypatch.chdir(tmp_path)
    texts, topics = documents()
    Path("seen.txt").write_text("\n".join(texts[:-6]))
    Path("new.txt").write_text("\n".join(texts[-6:]))
    options = ("-k", "3", *QUICK, "--cache", "blurred")
    assert run("map", "seen.txt", "-o", "with", *options).exit_code == 0
    assert run("map", "seen.txt", "-o", "without", "--words", "0", *options).exit_code == 0
    seen = pd.read_csv("with/clusters.csv")
    assert adjusted_rand_score(topics[:-6], seen["cluster"]) > 0.9
    found = predict("with", "new.txt", "--cache", "blurred")["cluster"]
    name = dict(zip(seen["cluster"], topics[:-6], strict=True))
    assert [name[cluster] for cluster in found] == topics[-6:]
