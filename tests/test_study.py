"""The unsupervised study: it runs, resumes, and keeps the labels to itself."""

import importlib
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from sklearn.cluster import KMeans
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj, to_undirected

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.evaluation import modularity

pytestmark = pytest.mark.ci

STUDY = Path(__file__).parent.parent / "examples/study"


@pytest.fixture
def study(monkeypatch):
    """Import a file of the study by its name, with its folder on the path."""
    pytest.importorskip("umap")
    pytest.importorskip("igraph")
    monkeypatch.syspath_prepend(STUDY)
    yield importlib.import_module
    for path in STUDY.glob("*.py"):  # so common names never answer another import
        sys.modules.pop(path.stem, None)


def clusters_of_points(num_classes=3, size=30, dim=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(num_classes).repeat_interleave(size)
    x = 3 * torch.eye(num_classes, dim)[y] + torch.randn(len(y), dim, generator=generator)
    return Data(x=x, y=y)


def citation_like(num_nodes=60):
    """A graph in parts, with an isolated node, a duplicate and a row of zeros; no k-NN graph."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(num_nodes - 1, (2, 80), generator=generator)
    edges = to_undirected(edges[:, edges[0] != edges[1]], num_nodes=num_nodes)
    x = (torch.rand(num_nodes, 12, generator=generator) < 0.3).float()
    x[0], x[1] = 0, x[2]
    y = torch.arange(num_nodes) % 3
    mask = torch.ones(num_nodes, dtype=torch.bool)
    return Data(x=x, edge_index=edges, y=y, train_mask=mask, num_nodes=num_nodes)


@pytest.mark.parametrize("with_umap", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_one_command_runs_everything_and_resumes(study, tmp_path, monkeypatch, with_umap):
    run = study("run")
    if not with_umap:  # which compiles for a while
        monkeypatch.setattr(study("clusterers"), "umap", lambda data, *rest, **options: data.x)
    runs = run.main(["--quick", "--output", str(tmp_path)])
    methods = list(study("methods").make_methods())
    assert runs["method"].unique().tolist() == methods
    assert len(runs) == 2 * len(methods)
    assert set(runs["dataset"]) == {"digits"}
    assert runs[["ari", "nmi", "acc", "cpu_seconds"]].notna().all(axis=None)
    labellings = runs.loc[runs["purity"].isna(), "method"].unique().tolist()
    assert labellings == [
        "heat, time by modularity",
        "PPR, alpha by modularity",
        "Leiden",
        "self-training",
        "isotropic self-training",
    ]
    mean = runs.groupby("method")["ari"].mean()
    assert mean["raw"] > 0.4  # 0.1 or less of a broken method
    assert mean["heat"] > mean["raw"]
    assert mean["self-training"] > mean["raw"]
    assert (tmp_path / "ari.png").stat().st_size > 10_000
    text = (tmp_path / "summary.md").read_text()
    assert "## ARI against UMAP" in text
    assert "## ARI of self-training less" in text

    before = (tmp_path / "runs.csv").read_bytes()
    run.main(["--quick", "--output", str(tmp_path)])
    assert (tmp_path / "runs.csv").read_bytes() == before  # not a single time measured anew


def test_methods_get_the_graph_and_nothing_else(study):
    for labelled in (clusters_of_points(), citation_like()):
        study_set = study("data_sets").hide_labels(labelled)
        assert set(study_set.data.keys()) == {"x", "edge_index", "edge_weight"}
        assert study_set.num_classes == 3
        length = study_set.data.x.norm(dim=1)
        assert torch.allclose(length[labelled.x.any(dim=1)], torch.tensor(1.0))
    assert torch.equal(study_set.data.edge_index, citation_like().edge_index)


@pytest.mark.slow  # `bash .ci/nightly`
@pytest.mark.parametrize("make", [clusters_of_points, citation_like])
def test_every_method_on_points_and_on_a_graph_in_parts(study, make):
    study_set = study("data_sets").hide_labels(make())
    for name, method in study("methods").make_methods(epochs=2, umap_epochs=5).items():
        result = method.run(study_set.data.clone(), study_set.num_classes, 0)
        assert result.size(0) == study_set.data.num_nodes, name
        assert result.dim() in (1, 2), name
        assert torch.isfinite(result).all(), name
        if not method.seeded:
            other = method.run(study_set.data.clone(), study_set.num_classes, 1)
            assert torch.equal(result, other), name


def test_the_filters_are_the_published_ones(study):
    filters = study("filters")
    data = study("data_sets").hide_labels(clusters_of_points()).data
    dense = to_dense_adj(data.edge_index, edge_attr=data.edge_weight)[0].double()
    loops = dense + torch.eye(len(dense))
    root = loops.sum(1).rsqrt()
    s, x = root[:, None] * loops * root, data.x.double()
    h = z = x
    total = 0.05 * x
    for _ in range(10):
        z = 0.9 * s @ z + 0.1 * x
    for _ in range(16):
        h = s @ h
        total = total + 0.95 / 16 * h
    normalize = torch.nn.functional.normalize
    torch.testing.assert_close(filters.ppr(data, 3, 0).double(), normalize(z), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        filters.ssgc(data, 3, 0).double(), normalize(total), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("make", [clusters_of_points, citation_like])
def test_spectral_finds_the_eigenvectors_of_the_dense_matrix(study, make):
    data = study("data_sets").hide_labels(make()).data
    n = data.num_nodes
    dense = to_dense_adj(data.edge_index, edge_attr=data.edge_weight, max_num_nodes=n)[0].double()
    tau = dense.sum(1).mean() if make is citation_like else 0  # in parts, or connected
    regular = dense + tau / n
    root = regular.sum(1).rsqrt()
    vectors = torch.linalg.eigh(root[:, None] * regular * root)[1][:, -3:]
    expected = torch.nn.functional.normalize(vectors)
    actual = study("clusterers").spectral(data, 3, 0)
    # Up to a rotation, which the angles between the rows do not see.
    torch.testing.assert_close(actual @ actual.t(), expected @ expected.t())


def test_heat_by_the_rule_of_self_training(study):
    """The time whose clusters are most modular, against a search by hand."""
    clusterers = study("clusterers")
    data = study("data_sets").hide_labels(clusters_of_points()).data
    found = clusterers.heat_by_modularity(data, 3, 0)
    x = study("filters").centred(data, 3, 0)
    best = []
    for t in clusterers.TIMES:
        z = heat_diffusion(x, data.edge_index, data.edge_weight, t)
        z = torch.nn.functional.normalize(z).numpy()
        labels = KMeans(3, n_init=3, random_state=0).fit_predict(z)
        best.append(
            (modularity(data.edge_index, data.edge_weight, torch.from_numpy(labels)), labels)
        )
    assert modularity(data.edge_index, data.edge_weight, found) == max(each for each, _ in best)
    assert clusterers.ppr_by_modularity(data, 3, 0).shape == found.shape


def test_parts_of_nodes_with_features(study, tmp_path):
    runs = study("nodes").main(["--quick", "--output", str(tmp_path), "--seeds", "1"])
    assert runs["part"].tolist() == ["counts", "words"]
    assert runs["ari"].min() > 0.4
    assert "| digits: words | " in (tmp_path / "nodes.md").read_text()


@pytest.mark.slow  # seconds, and each part is run and resumed above
def test_everything_by_one_command_also_after_it_was_killed(study, tmp_path, monkeypatch):
    monkeypatch.setattr(study("data_sets"), "QUICK_POINTS", 80)
    everything, runner, ablations = study("everything"), study("runner"), study("ablations")
    some = dict(list(ablations.ABLATIONS.items())[:2])
    monkeypatch.setattr(ablations, "ABLATIONS", some)
    monkeypatch.delitem(study("calibration").SETTINGS, "clusters")
    append, written = runner.append, []

    def dies(path, rows):
        append(path, rows)
        written.append(path.name)
        if len(written) == 3:
            raise KeyboardInterrupt

    def command(name):
        given = ["--quick", "--output", str(tmp_path / name), "--parts", "calibration", "ablations"]
        everything.main(given)

    monkeypatch.setattr(runner, "append", dies)
    with pytest.raises(KeyboardInterrupt):
        command("killed")
    monkeypatch.setattr(runner, "append", append)
    for name in ("killed", "whole"):
        command(name)
    for file in ("calibration.csv", "ablations.csv"):
        killed, whole = (
            pd.read_csv(tmp_path / name / file).drop(columns="cpu_seconds")
            for name in ("killed", "whole")
        )
        pd.testing.assert_frame_equal(killed, whole)
    for file in ("calibration.md", "ablations.md"):
        assert (tmp_path / "killed" / file).read_text() == (tmp_path / "whole" / file).read_text()
    assert "| isotropic heat | 0." in (tmp_path / "whole/ablations.md").read_text()


def test_scores_are_of_the_nodes_whose_label_was_not_given(study):
    few_labels, data_sets = study("few_labels"), study("data_sets")
    study_set = data_sets.hide_labels(clusters_of_points())

    def only_what_is_known(data, known, num_classes, seed):
        return known.clamp(min=0)

    scores = few_labels.run(only_what_is_known, study_set, 10, 0)
    assert scores["accuracy"] == pytest.approx(1 / 3)
    assert scores["macro_f1"] == pytest.approx(1 / 6)  # F1 of 1/2, 0 and 0
