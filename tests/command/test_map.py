import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command.command_cases import FakeEncoder, documents, run, use_fake_encoder, vectors
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score

from jsem_pyg.command import make_map, program
from jsem_pyg.datasets import text
from jsem_pyg.estimators import DiffusionClusterer
from jsem_pyg.evaluation import clustering_scores

QUICK = ("--layout", "none")


@pytest.fixture
def texts(monkeypatch):
    """documents.csv: 42 documents and what they are about; rows 1 and 4 empty, 2 and 3 the same."""
    use_fake_encoder(monkeypatch)
    table = pd.DataFrame(dict(zip(("body", "topic"), documents(), strict=True)))
    table.loc[[1, 4], "body"] = ["", "  "]
    table.loc[2] = table.loc[3]
    table.loc[5, "topic"] = ""
    table.to_csv("documents.csv", index=False)
    return table


@pytest.fixture
def points():
    """points.npy: 40 points around two corners."""
    x, y = vectors()
    np.save("points.npy", x)
    return x, y


def good(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.output


def bad(*words, code=1):
    result = run(*words)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


def test_documents_become_a_folder(texts):
    said = good("map", "documents.csv", "--labels", "topic", "--clusters", 3, *QUICK)
    assert "clustered is text of: body (guessed; --column says otherwise)" in said
    assert "Columns left out: topic" not in said  # it is compared with
    assert "2 rows are left out, in no cluster. Missing is the text in 2." in said
    assert "1 row holds the same as one before" in said
    assert "1 row has no label" in said
    assert "Done: see documents-map/clusters.csv and documents-map/report.md." in said
    table = pd.read_csv("documents-map/clusters.csv", keep_default_na=False)
    assert table.row.tolist() == list(range(len(texts)))
    assert table.cluster[1] == table.name[1] == table.probability[1] == ""
    assert table.body.tolist() == texts.body.tolist()
    assert table.topic.tolist() == texts.topic.tolist()
    kept = table.cluster != ""
    table["cluster"] = pd.to_numeric(table.cluster).astype("Int64")
    assert adjusted_rand_score(texts.topic[kept], table.cluster[kept]) > 0.8
    clusterer = DiffusionClusterer.load("documents-map/clusterer.safetensors")
    assert clusterer.labels_.tolist() == table.cluster[kept].drop(3).tolist()  # as row 2
    assert table.cluster[3] == table.cluster[2]
    names = table[kept].groupby("cluster").name.unique().explode()
    assert names.is_unique
    assert len(names) == 3
    report = Path("documents-map/report.md").read_text()
    for words in (*names, "42 rows", "ARI", "k-means", "2 rows are left out"):
        assert words in report
    assert "jsem-pyg map documents.csv --labels topic --clusters 3 --layout none" in report


def test_vectors_become_a_folder(points):
    said = good("map", "points.npy", "-k", "2", "-o", "deep/down", *QUICK)
    assert "clustered is vectors of: x" in said
    table = pd.read_csv("deep/down/clusters.csv")
    assert list(table.columns) == ["row", "cluster", "name", "probability"]
    assert adjusted_rand_score(points[1], table.cluster) > 0.9
    assert set(table.name) == {"cluster 0", "cluster 1"}
    assert "Typical" not in Path("deep/down/report.md").read_text()


def test_vectors_without_texts_are_named_by_their_labels(points):
    x, y = points
    np.savez("named.npz", x=x, y=np.array(["sea", "hill"])[y])
    good("map", "named.npz", "-k", "2", "--labels", "y", *QUICK)
    table = pd.read_csv("named-map/clusters.csv")
    assert (table.name == "mostly " + table.y).all()


def test_a_table_of_numbers_is_scaled_named_and_kept(monkeypatch):
    """No column of the file takes the place of one of ours, or of another."""
    wine = load_wine(as_frame=True).frame
    wine["file name"], wine["name"] = 7, wine.index.map("w{}".format)
    wine.to_csv("wine.csv", index=False)
    said = good("map", "wine.csv", "--labels", "target", *QUICK)
    assert "by Euclidean distance (--metric), each column divided by its interquartile" in said
    assert "3 clusters (taken; persist over " in said
    table = pd.read_csv("wine-map/clusters.csv")
    assert adjusted_rand_score(wine.target, table.cluster) > 0.85
    assert table.name.str.contains("high proline").any()
    pd.testing.assert_frame_equal(
        table[["proline", "file name", "file file name"]],
        wine[["proline", "file name", "name"]].set_axis(
            ["proline", "file name", "file file name"], axis=1
        ),
        check_dtype=False,
    )
    report = Path("wine-map/report.md").read_text()
    assert "3 clusters (taken; persist over" in report
    assert "proline (guessed; --column says otherwise)." in report  # at the end of a long note
    scaled = wine.drop(columns=["name", "file name", "target"]).to_numpy(copy=True)
    scaled /= np.subtract(*np.quantile(scaled, [0.75, 0.25], axis=0))
    kmeans = clustering_scores(scaled, wine.target.to_numpy(), 3, seeds=3, normalize=False)
    assert f"seeds | {kmeans.ari:.3f} ±" in report  # of the columns as they were clustered
    wine.drop(columns="target").head(9).to_csv("new.csv", index=False)
    assert run("predict", "wine-map", "new.csv", "-o", "out.csv").exit_code == 0
    pd.testing.assert_frame_equal(
        pd.read_csv("out.csv"), table.head(9).drop(columns="target"), check_dtype=False
    )


def test_the_map_is_drawn(points):
    pytest.importorskip("plotly")
    good("map", "points.npy", "-k", "2", "--layout", "pca")
    page = Path("points-map/map.html").read_text(encoding="utf-8")
    assert "jsem-pyg map points.npy" in page
    assert "cluster 1" in page
    assert "[map.html](map.html) draws them." in Path("points-map/report.md").read_text()


def test_the_command_of_a_report_makes_the_same(points):
    table = pd.DataFrame(points[0][:, :3], columns=["-a", "b c", "d"])
    table.to_csv("-my points.csv", index=False)
    good("map", "-c-a", "-k2", "-cb c", *QUICK, "--", "-my points.csv")
    made, report = Path("-my points-map/clusters.csv"), Path("-my points-map/report.md")
    before = made.read_bytes()
    typed = shlex.split(re.search(r"^jsem-pyg .*$", report.read_text(), re.M)[0])
    good(typed[1], "--overwrite", *typed[2:])
    assert made.read_bytes() == before


def test_vectors_may_be_named_by_text_and_scored_by_names():
    x, y = vectors()
    words = np.array(["there are ships in a harbour", "here is flour and an oven"])[y]
    rows = [{"embedding": v.tolist(), "note": w} for v, w in zip(x, words, strict=True)]
    Path("both.jsonl").write_text("\n".join(map(json.dumps, rows)))
    said = good("map", "both.jsonl", "-k", "2", "--labels", "note", "--column", "embedding", *QUICK)
    assert "named by text" not in said  # it is the label
    assert "no label" not in said
    assert "k-means with as many, 3 seeds" in Path("both-map/report.md").read_text()
    said = good("map", "both.jsonl", "-k2", "-o", "named", "--type", "note=text", *QUICK)
    assert "Clusters are named by text of: note" in said
    names = set(pd.read_csv("named/clusters.csv").name)
    assert names == {"ships, harbour", "flour, oven"} or names == {"harbour, ships", "flour, oven"}


def test_a_folder_that_is_there_is_not_touched_unasked(points):
    good("map", "points.npy", "-k", "2", *QUICK)
    before = Path("points-map/clusters.csv").read_bytes()
    assert "or --overwrite it" in bad("map", "points.npy", "-k", "3", *QUICK)
    assert Path("points-map/clusters.csv").read_bytes() == before
    good("map", "points.npy", "-k", "3", "--overwrite", *QUICK)
    assert Path("points-map/clusters.csv").read_bytes() != before
    Path("points-map/mine.txt").write_text("precious")
    assert "'mine.txt' in it" in bad("map", "points.npy", "-k", "2", "--overwrite", *QUICK)
    assert bad("map", "points.npy", "-o", "points.npy", *QUICK)
    Path("theirs").mkdir()
    Path("theirs/file").touch()
    assert "new, empty or of a map" in bad("map", "points.npy", "-o", "theirs", *QUICK)


@pytest.mark.parametrize("how", [(), ("--overwrite",)])
def test_a_run_that_was_stopped_is_begun_again_and_nothing_is_embedded_twice(
    texts, monkeypatch, how
):
    words = ("map", "documents.csv", "-k", "3", *QUICK)
    good(*words, "-o", "whole")
    if how:
        good(*words)

    def stop(*args):
        raise OSError("no space left")

    for stopped_at in ("_fitted", "summarize"):
        with monkeypatch.context() as patch:
            patch.setattr(make_map, stopped_at, stop)
            assert "no space left" in bad(*words, *how)
    assert "which is written last" in bad("predict", "documents-map", "documents.csv")
    FakeEncoder.embedded = 0
    good(*words)
    assert FakeEncoder.embedded == 0
    for name in ("clusters.csv", "clusterer.safetensors", "map.safetensors"):
        assert Path("documents-map", name).read_bytes() == Path("whole", name).read_bytes()


def test_warnings_alone_are_notes_of_the_report(texts):
    words = ("map", "documents.csv", "-k", "3", "--verbose", *QUICK)
    assert "Warning: " not in good(*words)
    for block in Path("cache").rglob("*.safetensors"):
        block.write_bytes(b"damaged")
    said, report = good(*words, "--overwrite"), Path("documents-map/report.md").read_text()
    for line, is_note in (("Embedding it anew.", True), ("self-training from t", False)):
        assert line in said
        assert (line in report) == is_note
    assert said.count("Warning: ") == said.count("Embedding it anew.")


@pytest.fixture
def mixed():
    """mixed.csv: two groups in two numbers and a category; three rows lack a number."""
    draw, group = np.random.default_rng(0), np.arange(60) % 2
    table = pd.DataFrame(
        {
            "id": np.arange(60) * 3,
            "size": 9 * group + draw.normal(size=60),
            "share": (30 + 9 * group + draw.normal(size=60)).round(1),
            "place": np.where(draw.random(60) < 0.9, np.array(["sea", "hill"])[group], "town"),
            "group": group,
        }
    )
    table.loc[[5, 7, 9], "size"] = np.nan
    table["id"] = table["id"].astype("Int64").replace({3: pd.NA, 6: 2**53 + 1})
    table.to_csv("mixed.csv", index=False, na_rep="NA")
    return table


def test_rows_that_lack_a_number_are_left_out_and_named(mixed):
    said = good("map", "mixed.csv", "--labels", "group", "-k", 2, *QUICK)
    assert "clustered is numbers of: size, share; categories of: place" in said
    assert "Columns left out: id (an identifier)." in said
    assert "Categories count by agreement with other columns, up to 1: place" in said
    assert "3 rows are left out, in no cluster. Missing is size in 3" in said
    table = pd.read_csv("mixed-map/clusters.csv", keep_default_na=False)
    assert table.cluster[[5, 7, 9]].tolist() == ["", "", ""]
    assert table["size"][5] == ""
    assert table["id"][:3].tolist() == ["0", "", "9007199254740993"]  # integers stay such
    kept = table.cluster != ""
    assert adjusted_rand_score(mixed.group[kept], table.cluster[kept]) == 1
    assert table.name[kept].str.contains("place|size|share").all()
    assert run("predict", "mixed-map", "mixed.csv", "-o", "out.csv").exit_code == 0
    assert Path("out.csv").read_bytes() == Path("mixed-map/clusters.csv").read_bytes()


def test_missing_numbers_may_be_the_median(mixed):
    said = good("map", "mixed.csv", "--labels", "group", "-k", 2, "--missing", "impute", *QUICK)
    assert "Missing numbers are the median of their column (--missing): size in 3." in said
    assert pd.read_csv("mixed-map/clusters.csv").cluster.notna().all()
    assert run("predict", "mixed-map", "mixed.csv", "-o", "out.csv").exit_code == 0
    assert Path("out.csv").read_bytes() == Path("mixed-map/clusters.csv").read_bytes()


def test_a_total_is_said_and_notes_below_a_table_are_in_no_cluster(mixed):
    rows = mixed[["size", "share"]].dropna().assign(name=[f"Place {i}" for i in range(57)])
    total = {**rows.sum(numeric_only=True).round(1), "name": "Total"}
    rows = pd.concat([rows, pd.DataFrame([total, {"name": "Source: me"}])])
    rows[["name", "size", "share"]].to_csv("total.csv", index=False)
    said = good("map", "total.csv", "-k", 2, "--missing", "impute", *QUICK)
    assert "The last row is the sum of the others" in said
    assert "1 row is left out, in no cluster. Missing is all that is clustered." in said


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("map", "nothing.csv"), 2, "does not exist"),
        (("map", "points.npy", "-k", "0"), 2, "0 is not in the range"),
        (("map", "one.txt", "--encoding", "utf-9"), 1, "unknown encoding: utf-9"),
        (("map", "points.npy", "-c", "y"), 1, "Expected a column 'y' (got a file with 'x')"),
        (("map", "points.npy", "-k", "41"), 1, "at most as many --clusters as there are rows"),
        (("map", "one.npy"), 1, "Expected 5 rows or more to cluster (got 1)"),
        (("map", "file.xls"), 1, "ends in one of .txt, .csv"),
        (("map", "points.npy", "--labels", "z"), 1, "Expected a column 'z'"),
        (("map", "codes.csv"), 1, "'zip' (codes; --column takes them"),
        (("map", "empty.txt"), 1, "a file with rows (got 'empty.txt', which is empty)"),
        (("predict", ".", "points.npy"), 1, "a folder that `jsem-pyg map` has written"),
    ],
)
def test_bad_input_is_said_in_a_line(points, words, code, said):
    x = points[0]
    np.save("one.npy", x[:1])
    np.save("same.npy", np.ones((40, 3)))
    Path("file.xls").touch()
    Path("empty.txt").touch()
    Path("codes.csv").write_text("zip\n" + "".join(f"{i}\n" for i in range(10_000, 10_009)))
    Path("one.txt").write_text("a")
    before = sorted(Path().iterdir())
    assert said in " ".join(bad(*words, *(QUICK if words[0] == "map" else ()), code=code).split())
    assert sorted(Path().iterdir()) == before  # no folder is left of it


@pytest.mark.parametrize(
    "words", [("empty.csv",), ("x.csv", "-o", "x.csv"), ("x.csv", "--labels", "z")]
)
def test_what_is_wrong_is_said_before_torch_is_imported(words):
    Path("empty.csv").touch()
    Path("x.csv").write_text("a,b\n" + "1,2\n3,5\n" * 9)
    code = "import sys; sys.modules['torch'] = None; from jsem_pyg.command import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "map", *words], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "Error: Expected" in done.stderr


def test_missing_packages_are_named_before_the_work(points, monkeypatch):
    monkeypatch.setattr(program, "find_spec", lambda module: None)
    said = bad("map", "points.npy")
    assert 'pip install "jsem_pyg[command]"' in said
    assert "--layout none" in said
    assert not Path("points-map").exists()
    monkeypatch.setattr(text, "find_spec", lambda module: None)
    Path("documents.txt").write_text("a b\nc d\ne f\ng h\ni j\n")
    assert 'pip install "jsem_pyg[text]"' in bad("map", "documents.txt", *QUICK)
    assert not Path("documents-map").exists()
