import base64
import re
import sys

import numpy as np
import pytest
import torch
from report_cases import HOSTILE, Page, blobs, texts
from torch_geometric.data import Data

from jsem_pyg.report import Findings, page, report


@pytest.fixture(autouse=True)
def _short_script(monkeypatch):
    """plotly.js is long, and tests read the whole page."""
    monkeypatch.setattr(page, "plotly_script", lambda: "/* plotly.js */")


def write(tmp_path, data=None, found=None, **options):
    if data is None:
        data, found = blobs()
    path = report(data, found, tmp_path / "map.html", **{"layout": "pca", **options})
    return Page(path)


def test_the_page_holds_what_was_given(tmp_path):
    data, found = blobs()
    scores = {"raw": {"ari": (0.5, 0.01)}}
    written = write(
        tmp_path,
        data,
        found,
        text=texts(60),
        cluster_names=["one", "two", "three"],
        label_names={0: "A", 1: "B", 2: "C"},
        scores=scores,
        settings={"seed": 7, "metric": "cosine"},
        title="Three corners",
    )
    content, arrays = written.content()
    assert content["texts"] == texts(60)
    assert content["times"] == [0.0, 0.5, 1.0, 2.0, 4.0]
    assert [each["kind"] for each in content["groupings"]] == ["cluster", "label"]
    assert content["groupings"][0]["names"] == ["one", "two", "three"]
    assert content["groupings"][1]["sizes"] == [20, 20, 20]
    assert arrays["group_0"].tolist() == found.labels.tolist()
    assert arrays["places"].shape == (5, 60, 2)
    assert len(arrays["edges_end"]) == data.num_edges // 2
    for words in (
        "Three corners",
        "one 20 33.3 %",
        "0.500 ± 0.010",
        "seed 7",
        f"60 points, {data.num_edges // 2} edges, 3 clusters",
        "torch",
    ):
        assert words in written.text
    assert written.source.count("<title>Three corners</title>") == 1


def test_the_page_asks_nobody_for_anything(tmp_path):
    written = write(tmp_path, text=texts(60))
    for tag, attributes in written.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base", "img")
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    (policy,) = (a["content"] for tag, a in written.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none';")
    assert not re.search(r"https?:|\*", policy)


@pytest.mark.parametrize("hostile", [HOSTILE[0], HOSTILE[2], HOSTILE[6]])
def test_no_text_becomes_html(tmp_path, hostile):
    names = dict.fromkeys(range(3), hostile)
    plain = write(tmp_path, settings={"a": "b"}, scores={"a": 1.0})
    written = write(
        tmp_path,
        title=hostile,
        text=[hostile] * 60,
        cluster_names=names,
        label_names=names,
        settings={hostile: hostile},
        scores={hostile: 1.0},
    )
    assert [tag for tag, _ in written.tags] == [tag for tag, _ in plain.tags]
    assert hostile in "".join(written.words)


def test_the_same_input_gives_the_same_bytes(tmp_path):
    data, found = blobs()
    before = data.clone()
    state = torch.random.get_rng_state()
    first, second = (
        report(data, found, tmp_path / name, layout="pca").read_bytes()
        for name in ("a.html", "b.html")
    )
    assert first == second
    packed = base64.b64decode(Page(tmp_path / "a.html").block)
    assert packed[4:8] == bytes(4)  # where gzip would write the time
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(data[key], before[key]) for key in before.to_dict())


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_points(tmp_path, count):
    empty = torch.empty(2, 0, dtype=torch.int64)
    found = Findings(torch.zeros(count, dtype=torch.int64), torch.empty(0), t=0.0)
    data = Data(x=torch.arange(count * 2.0).reshape(count, 2), edge_index=empty)
    written = write(tmp_path, data, found, layout="umap")
    assert f"{count} point{'s' if count > 1 else ''}, 0 edges, 1 cluster Dark" in written.text
    assert "(PCA of the diffused features)" in written.text  # whatever was asked for
    content, arrays = written.content()
    assert content["times"] == [0.0]
    assert arrays["places"].shape == (1, count, 2)
    assert arrays["edges_start"].tolist() == [0] * (count + 1)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"text": "one string"}, "Expected 'text' to be a list of strings"),
        ({"text": ["a"] * 59 + [np.nan]}, "Expected 'text' to be a list of strings"),
        ({"cluster_names": ["a"]}, "Expected 'cluster_names' to have a name, a string"),
        ({"label_names": [1, 2, 3]}, "Expected 'label_names' to be a list of strings"),
        ({"counts": [0] * 60}, "'counts' to be 60 integers >= 1"),
        ({"level_names": [["a"]]}, "Expected 'level_names' to be a list of names"),
        ({"scores": [1.0]}, "Expected 'scores' to be a pandas.DataFrame or a mapping"),
        ({"settings": 3}, "Expected 'settings' to be a mapping"),
        ({"layout": "circle"}, "Expected 'layout' to be one of 'auto', 'umap', 'pca'"),
        ({"title": None}, "Expected 'title' to be a string"),
        ({"images": np.zeros((60, 4))}, r"'images' to be finite \[60, H, W\].*got \[60, 4\]"),
    ],
)
def test_bad_arguments(tmp_path, options, match):
    with pytest.raises((TypeError, ValueError), match=match):
        write(tmp_path, **options)


@pytest.mark.parametrize(("package", "needed"), [("plotly.offline", "plotly"), ("umap", "umap")])
def test_what_is_missing_is_named_before_the_work(tmp_path, monkeypatch, package, needed):
    monkeypatch.undo()  # the short script
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(sys.modules["jsem_pyg.report.report"], "place_points", None)
    with pytest.raises(ImportError, match=rf'{needed}.*pip install "jsem_pyg\[report\]"'):
        write(tmp_path, layout="umap")


def test_a_folder_gets_a_page(tmp_path):
    for folder in (tmp_path, tmp_path / "new"):
        written = report(*blobs(), folder, layout="pca", scores={"ARI": 1.0})
        assert written == folder / "map.html"
    text = written.read_text(encoding="utf-8")
    assert text.index("<h2>Scores") < text.index("<h2>Edges that closed")


def test_points_of_many_rows_are_larger(tmp_path):
    """5,000 rows were 264 equal dots."""
    counts = [1, 9] * 30
    assert write(tmp_path, counts=counts).content()[1]["counts"].tolist() == counts
    assert "A larger dot stands for more rows." in write(tmp_path, counts=counts).text
