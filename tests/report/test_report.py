import base64
import re
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from dense import exact_heat_diffusion
from report_cases import HOSTILE, Page, blobs, texts
from scipy.optimize import brentq
from sklearn.decomposition import PCA
from sklearn.neighbors import kneighbors_graph
from torch.nn.functional import normalize
from torch_geometric.data import Data

from jsem_pyg.estimators import DiffusionClusterer
from jsem_pyg.kernels.map_forces import move_points
from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.report import Findings, page, report
from jsem_pyg.report.layout import join_neighbours
from jsem_pyg.training import fit
from jsem_pyg.transforms import FaissKNNGraph


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


def test_of_many_points_there_are_fewer_times(tmp_path):
    x, alone = torch.randn(20_001, 2), torch.empty(2, 0, dtype=torch.int64)
    found = Findings(torch.zeros(20_001, dtype=torch.int64), torch.empty(0), t=4.0)
    written = write(tmp_path, Data(x=x, edge_index=alone), found)
    assert written.content()[0]["times"] == [0.0, 1.0, 4.0]


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


def test_what_is_missing_is_named_before_the_work(tmp_path, monkeypatch):
    monkeypatch.undo()  # the short script
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    monkeypatch.setattr(sys.modules["jsem_pyg.report.report"], "place_points", None)
    with pytest.raises(ImportError, match=r'plotly.*pip install "jsem_pyg\[report\]"'):
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


# ---------------------------------------------------------------- what is read of a result


def pages(tmp_path, *given):
    """The bytes of a page for each pair of data and result."""
    path = tmp_path / "map.html"
    return [report(data, found, path, layout="pca").read_bytes() for data, found in given]


def test_a_trained_classifier_is_its_classes_and_conductances(tmp_path):
    data, _ = blobs()
    result = fit(DiffusionClassifier(data.num_features, 3, normalization="rw"), data, epochs=1)
    model, given = result.model, (data.x, data.edge_index, data.edge_weight)
    with torch.no_grad():
        labels, conductances = model(*given).argmax(-1), model.conductances(*given)
    found = Findings(labels, conductances, model.t.item(), "rw")
    one, other = pages(tmp_path, (data, result), (data, found))
    assert one == other


@pytest.mark.parametrize("scale", [None, "robust"])
def test_a_clusterer_has_a_graph_of_its_own_on_the_points_that_it_was_fitted_to(tmp_path, scale):
    data, _ = blobs()
    x = data.x * torch.tensor([1.0, 100.0, 1.0, 1e-3, 1.0])
    clusterer = DiffusionClusterer(3, n_neighbors=6, t=2.0, scale=scale, random_state=0)
    clusterer.fit(x.numpy())
    names = ("points", "edge_index", "edge_weight", "labels", "conductances")
    points, edge_index, edge_weight, labels, conductances = (
        torch.from_numpy(getattr(clusterer, f"{name}_")) for name in names
    )
    own = Data(points, edge_index, edge_weight=edge_weight, y=data.y)
    levels = tuple(torch.from_numpy(each.labels) for each in clusterer.tree_.levels[1:])
    more = {"levels": levels, "distinctness": clusterer.distinctness_}
    found = Findings(labels, conductances, clusterer.t_, **more)
    other = Data(x, data.edge_index, y=data.y)  # whatever graph the data have
    given = [(Data(x, y=data.y), clusterer), (other, clusterer), (own, found)]
    assert len(set(pages(tmp_path, *given))) == 1
    pages(tmp_path, (Data(x.half()), clusterer))  # the same but for the digits that it lacks
    for other in (x[1:], x.flip(0), x + x.std(0), x[:, 1:]):
        with pytest.raises(ValueError, match="'data' to hold the points that the clusterer was"):
            report(Data(other), clusterer, tmp_path)
    with pytest.raises(ValueError, match="not fitted"):
        report(data, DiffusionClusterer(), tmp_path)


CONDUCTANCES = blobs()[1].conductances


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"labels": torch.zeros(3).long()}, "labels' to have shape"),
        ({"t": -1.0}, "t' to be non-negative"),
        ({"normalization": "no"}, "normalization' to be one of"),
        ({"conductances": torch.ones(3)}, "conductances' to have shape"),
        ({"conductances": 2 * CONDUCTANCES}, r"conductances' to lie in \[0, 1\]"),
        ({"conductances": CONDUCTANCES * torch.nan}, "conductances' to be finite"),
        ({"conductances": CONDUCTANCES.clone().index_fill_(0, torch.tensor(0), 0.5)}, "in both"),
    ],
)
def test_findings_that_do_not_fit(tmp_path, changed, match):
    data, found = blobs()
    with pytest.raises((TypeError, ValueError), match=f"Expected 'result.*{match}"):
        report(data, replace(found, **changed), tmp_path)


# ---------------------------------------------------------------- the pieces of a page


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (pd.DataFrame({"ari": [0.75], "seeds": 5}, index=["heat"]), "ari seeds heat 0.750 5"),
        (
            {"raw": {"ARI": 0.25}, "heat": {"ARI": 0.5, "NMI": "none"}},
            "ARI NMI raw 0.250 heat 0.500 none",
        ),
    ],
)
def test_scores_are_a_row_for_each_method(tmp_path, scores, words):
    assert f" {words} " in write(tmp_path, scores=scores).text


@pytest.mark.parametrize("names", [["a", "b", "c", "d"], {3: "d", 1: "b", -1: "none"}, None])
def test_groups_are_named_by_their_labels(tmp_path, names):
    data, found = blobs(each=1, corners=5)
    found = replace(found, labels=torch.tensor([3, 1, 1, 3, 3]), levels=(torch.zeros(5).long(),))
    content, arrays = write(tmp_path, data, found, cluster_names=names).content()
    clusters, labels, level = content["groupings"]
    assert clusters["names"] == (["cluster 1", "cluster 3"] if names is None else ["b", "d"])
    assert clusters["sizes"] == [2, 3]
    assert arrays["group_0"].tolist() == [1, 0, 0, 1, 1]
    assert labels["kind"] == "label"
    assert [each["is_level"] for each in (clusters, labels, level)] == [False, False, True]


def test_each_edge_stands_at_its_smaller_end(tmp_path):
    edge_index = torch.tensor([[2, 0, 1, 3, 0, 1], [1, 3, 0, 0, 1, 2]])
    conductance = torch.tensor([0, 2 / 3, 1, 2 / 3, 1, 0], dtype=torch.float64)
    found = Findings(torch.zeros(5).long(), conductance, 1.0)
    arrays = write(tmp_path, Data(torch.eye(5), edge_index), found).content()[1]
    assert arrays["edges_start"].tolist() == [0, 2, 3, 3, 3, 3]
    assert arrays["edges_end"].tolist() == [1, 3, 2]
    full, part, none = arrays["edges_conductance"].tolist()
    assert none == 0
    assert abs(full * 2 / 3 - part) < 0.5  # to the nearest


# ---------------------------------------------------------------- the map


def test_points_follow_the_heat_on_the_axes_of_the_last_time(tmp_path):
    data, found = blobs()
    found = replace(found, conductances=data.edge_index.sum(0) % 5 / 4)
    content, arrays = write(tmp_path, data, found).content()
    weight = data.edge_weight * found.conductances
    x = normalize(data.x - data.x.mean(0))
    stages = [
        normalize(exact_heat_diffusion(x, data.edge_index, weight, t)) for t in content["times"]
    ]
    axes = PCA(2).fit(stages[-1].numpy())
    wanted = np.stack([axes.transform(z.numpy()) for z in stages]).reshape(-1, 2)
    placed = arrays["places"].reshape(-1, 2).astype(float)
    for axis in range(2):  # of all times together, up to the sign and the unit
        assert abs(np.corrcoef(wanted[:, axis], placed[:, axis])[0, 1]) > 0.9999


@pytest.mark.parametrize("layout", ["auto", "umap"])
def test_layouts_keep_points_where_they_were(tmp_path, layout, monkeypatch, capsys):
    """By t-SNE, and by UMAP, which shows a bar in a terminal."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    data, found = blobs(each=30)

    def placed(seed=0):
        written = write(tmp_path, data, found, layout=layout, random_state=seed)
        return written.content()[1]["places"].astype(float)

    places = placed()
    assert np.array_equal(places, placed())
    y, width = data.y.numpy(), np.ptp(places[-1], axis=0).max()
    for one, other in pairwise(places):
        assert np.median(np.linalg.norm(one - other, axis=1)) < 0.2 * width
    centres = np.stack([places[-1][y == label].mean(0) for label in range(3)])
    nearest = np.linalg.norm(places[-1][:, None] - centres, axis=-1).argmin(1)
    assert (nearest == y).mean() > 0.95
    if layout == "umap":  # t-SNE of few points begins with their axes, and draws nothing
        assert "drawing 5 of 5" in capsys.readouterr().err
        assert not np.array_equal(places, placed(seed=1))


def test_umap_keeps_neighbours_that_axes_lose_on_any_number_of_threads(tmp_path):
    x = torch.randn(2400, 8, generator=torch.Generator().manual_seed(0))
    data = FaissKNNGraph(10, "l2")(Data(x=x + 8 * torch.eye(8)[torch.arange(2400) % 8]))
    data.x[:20] = data.x[20]  # copies
    found = Findings(torch.zeros(2400, dtype=torch.int64), torch.ones(data.num_edges), t=0.0)

    def placed(layout):
        return write(tmp_path, data, found, layout=layout).content()[1]["places"][0].astype(float)

    def neighbours(points):
        return kneighbors_graph(points, 15)

    true, by_umap = neighbours(normalize(data.x - data.x.mean(0)).numpy()), placed("umap")
    kept = [true.multiply(neighbours(each)).sum() for each in (placed("pca"), by_umap)]
    assert kept[1] > 1.5 * kept[0]
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 2)
    try:
        assert np.array_equal(by_umap, placed("umap"))
    finally:
        torch.set_num_threads(threads)


def test_an_edge_moves_its_points_in_its_share_of_the_epochs():
    place = np.random.default_rng(0).normal(size=(2, 2)).astype(np.float32)
    edges = np.array([0, 1, 2]), np.array([1, 0]), np.array([0.25, 1.0], np.float32)
    moves = []
    for epoch in range(8):
        moved = np.empty_like(place)
        move_points(*edges, place, moved, 7, epoch, np.float32(0.1), 0, 2)
        moves.append((moved != place).any(1))
    assert np.sum(moves, 0).tolist() == [2, 8]


def test_edges_are_weighed_by_the_equation_of_umap():
    """McInnes, Healy and Melville 2018, section 3.1, solved by SciPy."""
    points = np.random.default_rng(0).normal(size=(40, 3))
    points[-1] += 100  # nobody's neighbour
    distance = np.sqrt(((points[:, None] - points) ** 2).sum(-1))
    order = distance.argsort(1)[:, 1:15]
    near = np.take_along_axis(distance, order, 1)
    weight = np.zeros((40, 40))
    for i, excess in enumerate(near - near[:, :1]):
        width = brentq(lambda w, excess=excess: np.exp(-excess / w).sum() - np.log2(15), 1e-3, 1e3)
        weight[i, order[i]] = np.exp(-excess / width)
    found = join_neighbours(torch.from_numpy(order), torch.from_numpy(near)).toarray()
    assert np.allclose(found, weight + weight.T - weight * weight.T, atol=1e-8)
    same = join_neighbours(torch.from_numpy(order), torch.zeros(40, 14)).toarray()
    assert set(np.unique(same)) == {0.0, 1.0}  # copies belong together
