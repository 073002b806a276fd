"""Everything that is shown runs: the examples in a quick mode, and the README's code."""

import contextlib
import importlib.util
import io
import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from scipy.spatial import Delaunay
from torch_geometric.data import Data

import jsem_pyg
from jsem_pyg.datasets import embed_texts
from jsem_pyg.evaluation import modularity

pytestmark = pytest.mark.ci

ROOT = Path(__file__).parent.parent


def load(path, monkeypatch):
    """Import a script of the examples, with its folder on the path."""
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.syspath_prepend(path.parent)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def learn_diffusion(monkeypatch):
    return load(ROOT / "examples/learn_diffusion.py", monkeypatch)


@pytest.fixture
def quick_map(monkeypatch):
    """Maps by principal axes, since UMAP compiles for a while."""
    function = jsem_pyg.report.report
    quick = {**function.__kwdefaults__, "layout": "pca"}
    monkeypatch.setattr(function, "__kwdefaults__", quick)


QUICK = ["--epochs", "3", "--seeds", "2"]
FIGURES = ["training.png", "curvature.png", "conductance.png", "map.png"]


CLASSIFIERS = ["classifier, every edge open", "classifier, learned conductance"]
MEASURES = ["t", "ari", "nmi", "acc", "energy"]


def test_the_main_job_on_its_embedded_default(
    learn_diffusion, tmp_path, monkeypatch, capsys, quick_map
):
    monkeypatch.setattr(learn_diffusion, "MAP_POINTS", 100)
    table = learn_diffusion.main([*QUICK, "--output", str(tmp_path)])
    assert list(table.index) == ["raw", "isotropic heat", *CLASSIFIERS]
    ari = table["ari_mean"]
    assert 0.5 < ari["raw"] < ari["isotropic heat"] < ari[CLASSIFIERS].min()
    assert abs(ari[CLASSIFIERS[0]] - ari[CLASSIFIERS[1]]) < 0.01  # the classifier does it
    assert f"{ari['raw']:.3f} ± {table['ari_std']['raw']:.3f}" in capsys.readouterr().out
    for name in FIGURES:
        assert (tmp_path / name).stat().st_size > 10_000
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert "<title>digits: classifier, learned conductance</title>" in page
    with np.load(tmp_path / "embeddings.npz") as saved:
        assert saved["x"].shape == (1797, 10)
        assert saved["y"].shape == (1797,)
    written = pd.read_csv(tmp_path / "results.csv", index_col="representation")
    pd.testing.assert_frame_equal(written, table)
    kinds = [f"{measure}_{kind}" for measure in MEASURES for kind in ("mean", "std")]
    assert list(written.columns) == [*kinds, "seeds"]
    assert all(pd.api.types.is_numeric_dtype(dtype) for dtype in written.dtypes)
    assert (written["seeds"] == 2).all()


def test_the_main_job_with_a_conductance_from_curvature(learn_diffusion, tmp_path):
    options = [*QUICK, "--conductance=mlp", "--no-figures", f"--output={tmp_path}"]
    table = learn_diffusion.main(options)
    assert list(table.index[2:]) == ["triplets, every edge open", "triplets, learned conductance"]
    assert (table["ari_mean"].iloc[2:] > 0.6).all()
    with np.load(tmp_path / "embeddings.npz") as saved:
        assert saved["x"].shape == (1797, 64)


def blobs(learn_diffusion, num_classes, each=12):
    """Points in groups that are easy to tell apart, with their neighbour graph."""
    y = torch.arange(num_classes).repeat_interleave(each)
    noise = torch.randn(len(y), num_classes, generator=torch.Generator().manual_seed(0))
    data = Data(x=torch.eye(num_classes)[y] + 0.1 * noise, y=y)
    return learn_diffusion.FaissKNNGraph(5)(data)


def test_the_ablation_opens_every_edge_and_nothing_else(learn_diffusion):
    args = learn_diffusion.parse_args(["--epochs=2"])
    data = blobs(learn_diffusion, 3)
    opened, learned = (learn_diffusion.train_itself(args, data, 2.0, 0, way) for way in (1, 0))
    assert (opened.conductance == 1).all()
    assert learned.conductance.min() < 1
    assert len(opened.history) == len(learned.history) == 2


def test_the_training_curve_of_the_main_job_follows_the_rounds(learn_diffusion):
    args = learn_diffusion.parse_args(["--epochs=3"])
    data = blobs(learn_diffusion, 4)
    learned = learn_diffusion.train_itself(args, data, 2.0, 0)
    rounds = learn_diffusion.follow_rounds(args, data, learned)
    assert rounds.index.tolist() == [1, 2, 3]
    assert rounds["changed"].isna().tolist() == [True, False, False]
    assert rounds["changed"].iloc[1:].between(0, 1).all()
    final = modularity(data.edge_index, data.edge_weight, learned.x.argmax(-1))
    assert rounds["modularity"].iloc[-1] == pytest.approx(final)
    runs = {"raw": data.x, "isotropic heat": data.x}
    shown = {name: learn_diffusion.Represented(x) for name, x in runs.items()}
    figure = learn_diffusion.draw_rounds(args, data, shown | {"learned": learned})
    assert "loss" not in " ".join(axis.get_ylabel() for axis in figure.axes)


def test_the_map_of_the_main_job_names_its_classes(learn_diffusion):
    data = blobs(learn_diffusion, 12)
    panels = dict.fromkeys(("raw", "isotropic heat", *CLASSIFIERS), data.x)
    classes = [f"class {label}" for label in range(12)]
    figure = learn_diffusion.draw_map(panels, data, classes)
    assert [axis.get_title() for axis in figure.axes] == list(panels)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == classes
    assert "t-SNE of its own" in figure.get_suptitle()
    styles = {
        (tuple(dots.get_facecolor()[0]), len(dots.get_paths()[0].vertices))
        for dots in figure.axes[0].collections
    }
    assert len(styles) == 12  # of ten colours and two markers


def test_the_main_job_on_a_file_without_labels(learn_diffusion, tmp_path, monkeypatch, quick_map):
    monkeypatch.setattr(learn_diffusion, "MAP_POINTS", 50)
    np.save(tmp_path / "mine.npy", torch.randn(60, 8).numpy())
    options = [*QUICK, f"--dataset={tmp_path / 'mine.npy'}", f"--output={tmp_path / 'out'}"]
    with pytest.raises(SystemExit, match="say how many --clusters"):
        learn_diffusion.main(options)
    table = learn_diffusion.main([*options, "--clusters=3"])
    measured = [column for column in table if column.endswith("_mean")]
    assert measured == ["t_mean", "energy_mean"]
    for name in FIGURES:
        assert (tmp_path / "out" / name).exists()


def test_the_main_job_finds_20_newsgroups_in_a_folder(learn_diffusion, tmp_path):
    y = np.arange(80) % 4
    x = np.random.default_rng(0).normal(size=(80, 12)) + 4 * np.eye(4, 12)[y]
    np.savez(
        tmp_path / "20newsgroups_train_minilm.npz",
        x=x.astype("float16"),
        y=y,
        target_names=np.array(["a", "b", "c", "d"]),
    )
    table = learn_diffusion.main(
        [
            *QUICK,
            "--dataset=20newsgroups",
            f"--data={tmp_path}",
            f"--output={tmp_path / 'out'}",
            "--no-figures",
            "--sketch-dim=8",
        ]
    )
    assert table["ari_mean"].iloc[1] > 0.5
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "20newsgroups_train_minilm.npz",  # the data folder itself is left alone
        "out",
    ]


def test_the_benchmark_of_a_training_epoch(tmp_path, monkeypatch, capsys):
    benchmark = load(ROOT / "examples/benchmarks/training_epoch.py", monkeypatch)
    monkeypatch.setattr(benchmark, "find_spec", lambda name: None)  # JAX takes seconds to compile
    table = benchmark.main(
        f"--num-points 60 --channels 5 --k 4 --degree 6 --repeats 1 --output {tmp_path}".split()
    )
    assert table.index[-1] == "naive COO autograd"
    assert table["naive epoch / this"].iloc[-1] == 1
    assert (tmp_path / "training_epoch.csv").exists()
    assert (tmp_path / "training_epoch.png").exists()
    assert "| torch, K = 6 |" in (tmp_path / "training_epoch.md").read_text()
    assert "JAX is not installed" in capsys.readouterr().out


@pytest.mark.slow
def test_the_benchmark_of_a_training_epoch_in_jax(tmp_path, monkeypatch):
    pytest.importorskip("jax.numpy", reason="needs the extra [jax]")
    benchmark = load(ROOT / "examples/benchmarks/training_epoch.py", monkeypatch)
    sizes = ["--num-points", "60", "--channels", "5", "--k", "4", "--degree", "6"]
    table = benchmark.main([*sizes, "--repeats", "1", "--output", str(tmp_path)])
    assert (table["epoch s"][["JAX, numba, K = 6", "JAX, xla, K = 6"]] > 0).all()


@pytest.fixture
def jax_conductance(monkeypatch):
    pytest.importorskip("jax.numpy", reason="needs the extra [jax]")
    pytest.importorskip("optax")
    return load(ROOT / "examples/jax_conductance.py", monkeypatch)


def test_a_conductance_that_is_trained_in_jax(jax_conductance, tmp_path, monkeypatch):
    way = "t = 5, learned conductance"  # compiling each takes seconds
    monkeypatch.setattr(jax_conductance, "WAYS", {way: jax_conductance.WAYS[way]})
    options = ["--points=150", "--k=5", "--labels=3", "--seeds=1", "--steps=20"]
    table = jax_conductance.main([*options, f"--output={tmp_path}"])
    assert table["accuracy"].item() > 0.7
    assert table["h between classes"].item() < table["h within classes"].item() < 1
    assert f"| 3 | {way} | " in (tmp_path / "jax_conductance.md").read_text()


@pytest.mark.slow
def test_every_way_to_heat_in_jax(jax_conductance, tmp_path, capsys):
    example = jax_conductance
    options = ["--points=300", "--k=6", "--labels=3", "--seeds=1", "--steps=30"]
    table = example.main([*options, f"--output={tmp_path}"])
    found = table.set_index("way")
    assert list(found.index) == list(example.WAYS)
    assert found["accuracy"].iloc[1:].min() > found["accuracy"]["no heat"] > 0.5
    assert found["t"].iloc[:3].tolist() == pytest.approx([0, 5, 5])
    assert (found["h within classes"] < 1).tolist() == [False, False, True, False, True]
    assert found["h between classes"].iloc[2] < found["h within classes"].iloc[2]
    assert "| 3 | learned t and conductance |" in capsys.readouterr().out
    written = pd.read_csv(tmp_path / "jax_conductance.csv")
    pd.testing.assert_frame_equal(written, table, check_dtype=False)


def test_the_benchmark_of_scaling(tmp_path, monkeypatch):
    scaling = load(ROOT / "examples/benchmarks/scaling.py", monkeypatch)
    for name, values in {
        "SIZES": [60, 90],
        "CHANNELS": [4, 9],
        "DEGREES": [3],
        "SCALES": [2],
    }.items():
        monkeypatch.setattr(scaling, name, values)
    table = scaling.main(
        f"--num-nodes 50 --repeats 1 --output {tmp_path} --backends reference torch".split()
    )
    assert len(table) == 2 * (2 + 2 + 1 + 1)
    assert set(scaling.exponents(table)) == {"reference", "torch"}
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md", ".png"}


def test_the_benchmark_out_of_core(tmp_path, monkeypatch):
    out_of_core = load(ROOT / "examples/benchmarks/out_of_core.py", monkeypatch)
    monkeypatch.setattr(out_of_core, "watched", run_here())
    sizes = ["--nodes", "80", "--channels", "20", "--compare", "5", "--memory", "64GB", "65GB"]
    folders = ["--scratch", str(tmp_path / "scratch"), "--output", str(tmp_path / "out")]
    table = out_of_core.main([*sizes, *folders])
    assert table["memory"].tolist() == ["all, 5 columns", "64GB", "65GB"]
    assert (table["time / in memory"] > 0).all()
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"edges-80-15.npy", "out_of_core.csv", "out_of_core.md"}


def test_a_process_of_the_benchmark_out_of_core_is_watched(monkeypatch):
    out_of_core = load(ROOT / "examples/benchmarks/out_of_core.py", monkeypatch)
    seen = out_of_core.watched("import sys, time; time.sleep(0.2); print(sys.argv[1])", 7)
    assert seen["s"] == 7
    assert 0.001 < seen["peak GB"] < 1
    with pytest.raises(RuntimeError, match="failed with the status 3"):
        out_of_core.watched("raise SystemExit(3)", {})


def run_here():
    """What stands for a process of its own, which would take seconds to import the package."""

    def run(code, job):
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(sys, "argv", ["", json.dumps(job)])
            exec(compile(code, "job", "exec"), {})
        *before, seconds = map(float, out.getvalue().split())
        return {"prepare s": sum(before), "s": seconds}

    return run


def test_the_benchmark_of_orders(tmp_path, monkeypatch):
    ordering = load(ROOT / "examples/benchmarks/ordering.py", monkeypatch)
    monkeypatch.setattr(ordering, "ROWS_OF_A_BLOCK", 50)
    monkeypatch.setattr(ordering, "LINES", 64)
    sizes = ("--num-nodes", "300", "--neighbours", "5", "--channels", "4", "--degree", "3")
    table = ordering.main([*sizes, "--repeats", "1", "--output", str(tmp_path)])
    by_order = table.set_index("order")
    assert len(by_order) == 7
    assert (by_order["MB a term"].drop("none") < by_order["MB a term"]["none"]).all()
    assert (by_order["halo of 16"].drop("none") < by_order["halo of 16"]["none"]).all()
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md"}


def test_the_benchmark_of_small_graphs(tmp_path, monkeypatch):
    benchmark = load(ROOT / "examples/benchmarks/small_graphs.py", monkeypatch)
    threads = torch.get_num_threads()
    try:
        table = benchmark.main(["--repeats", "1", "--batches", "1", "--output", str(tmp_path)])
    finally:
        torch.set_num_threads(threads)
    assert (table.set_index("layer").loc[benchmark.BASELINE].filter(like="ratio") == 1).all()


def test_the_benchmark_of_filters(tmp_path, monkeypatch):
    benchmark = load(ROOT / "examples/benchmarks/filters.py", monkeypatch)
    sizes = ["--num-points", "60", "--channels", "4", "--k", "5"]
    table = benchmark.main([*sizes, "--repeats", "1", "--output", str(tmp_path)])
    errors = table["relative difference"].dropna()
    assert len(errors) >= 6  # more where peers are installed
    assert errors.max() < 2e-6
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md"}


@pytest.mark.slow  # it begins a browser, where there is one
def test_the_benchmark_of_reports(tmp_path, monkeypatch):
    benchmark = load(ROOT / "examples/benchmarks/report.py", monkeypatch)
    quick = ["--num-points", "300", "--channels", "8", "--layout", "pca"]
    table = benchmark.main([*quick, "--output", str(tmp_path)])
    assert table["points"].tolist() == [300]
    assert 1 < table["MB"].item() < 10
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md"}


def test_the_benchmark_of_large_graphs(tmp_path, monkeypatch):
    large = load(ROOT / "examples/benchmarks/large_graphs.py", monkeypatch)
    sizes = ["--nodes", "40", "60", "--channels", "5", "--degree", "3", "--stream-size", "1000"]
    table = large.main(
        [*sizes, "--repeats", "1", "--before", "", "--ablate", "--output", str(tmp_path)]
    )
    assert len(table) == 2 * (1 + len(large.VARIANTS))
    assert (table["wall / least"] > 0).all()
    text = (tmp_path / "large_graphs.md").read_text()
    assert "Triad: " in text
    assert "| without asking ahead |" in text
    with pytest.raises(AssertionError, match="disagree"):
        large.check({"results": [torch.ones(2)]}, {"results": [torch.zeros(2)]})


@pytest.mark.slow
def test_the_kernels_of_an_earlier_commit(tmp_path, monkeypatch):
    large = load(ROOT / "examples/benchmarks/large_graphs.py", monkeypatch)
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True).returncode:
        pytest.skip("not in a clone")
    sizes = ["--nodes", "40", "--channels", "5", "--degree", "3", "--stream-size", "1000"]
    table = large.main([*sizes, "--repeats", "1", "--before", "HEAD", "--output", str(tmp_path)])
    assert table["way"].tolist() == ["now", "before"]


def test_the_benchmark_of_sizes(tmp_path, monkeypatch):
    sizes = load(ROOT / "examples/benchmarks/sizes.py", monkeypatch)
    quick = ["--channels", "5", "--degree", "3", "--repeats", "1", "--stream-size", "1000"]
    run = partial(sizes.main, [*quick, "--nodes", "60", "40", "--output", str(tmp_path)])
    table = run()
    assert table["N"].tolist() == [40, 60]
    assert (table[["epoch cpu s", "cpu s / counted", "counted GB"]] > 0).all(axis=None)
    assert "an epoch grows as edges^" in (tmp_path / "sizes.md").read_text()
    monkeypatch.setattr(sizes, "measure", None)  # what is in the table is not measured again
    pd.testing.assert_frame_equal(run(), table)


def test_the_benchmark_of_memory(tmp_path, monkeypatch):
    memory = load(ROOT / "examples/benchmarks/memory.py", monkeypatch)
    folders = ["--scratch", str(tmp_path / "scratch"), "--output", str(tmp_path)]
    run = partial(memory.main, ["--only", "1d", "--scale", "0.01", *folders])
    table = run()
    assert len(table) == len(memory.LIMITS)
    [measured] = table.dropna()["call"]
    assert "1d" in measured
    assert 0.001 < table["peak GB"].dropna().item() < 0.5
    assert (tmp_path / "memory.md").read_text().count("| yes |") == 1
    monkeypatch.setattr(memory, "watch", None)  # what is in the table is not measured again
    pd.testing.assert_frame_equal(run(), table)


def test_the_first_hour_on_a_gpu_writes_down_what_fails(tmp_path, monkeypatch, capsys):
    gpu = load(ROOT / "examples/benchmarks/gpu_epoch.py", monkeypatch)
    if not torch.cuda.is_available():
        with pytest.raises(SystemExit, match="needs a CUDA device"):
            gpu.main([])

    def fails(args, note):
        note(way="one", error=0.5)
        raise MemoryError("too large\nby far")

    def hangs(args, note):
        note(way="two")
        time.sleep(60)

    def crashes(args, note):
        os._exit(7)

    def works(args, note):
        note(way="three", failed=None)

    parts = {"correct": fails, "newsgroups": hangs, "million": crashes, "alignment": works}
    monkeypatch.setattr(gpu, "PARTS", parts)
    monkeypatch.setitem(gpu.LIMITS, "newsgroups", 0.5)
    table = gpu.main(["--rehearse", "--output", str(tmp_path)])
    rest = "the rest of this part"
    assert table["way"].tolist() == ["one", rest, "two", rest, rest, "three"]
    failed = table["failed"].dropna().tolist()
    assert failed[0].startswith("MemoryError: too large (test_examples.py:")
    assert failed[1:] == ["stopped after 0.5 s", "the process ended with code 7"]
    assert "3 of 6 rows failed." in (tmp_path / "gpu_epoch.md").read_text()
    columns = {"part": "newsgroups", "way": ["triton", "cuSPARSE"], "forward ms": [2.0, 5.0]}
    measured = pd.DataFrame(columns | {"epoch ms": [6.0, np.nan]})
    assert gpu.goals(measured, False) == [
        "newsgroups: forward 2.50 times as fast as cuSPARSE (goal 1.6). "
        "newsgroups: 6.0 ms an epoch (goal 8)."
    ]


@pytest.mark.slow  # Triton's interpreter, in a process of its own
def test_the_first_hour_on_a_gpu_is_rehearsed(tmp_path):
    command = [sys.executable, ROOT / "examples/benchmarks/gpu_epoch.py", "--rehearse", "--output"]
    subprocess.run([*command, tmp_path], check=True)
    table = pd.read_csv(tmp_path / "gpu_epoch.csv")
    assert set(table["part"]) == {"correct", "newsgroups", "million", "alignment"}
    assert "failed" not in table
    assert table.loc[table["part"] == "correct", "error"].max() < 1e-4


def test_the_benchmark_of_curvature(tmp_path, monkeypatch):
    curvature = load(ROOT / "examples/benchmarks/curvature.py", monkeypatch)
    monkeypatch.setattr(curvature, "SIZES", [60, 120])
    sizes = ["--num-points", "80", "--channels", "8", "--k", "6"]
    compared, grown = curvature.main([*sizes, "--repeats", "1", "--output", str(tmp_path)])
    assert set(compared["way"]) == {"GraphRicciCurvature", "torch", "numba"}
    assert (compared["ratio"] > 0).all()
    assert sorted(set(grown["N"])) == [60, 120]
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md", ".png"}


def test_the_benchmark_of_pruning(tmp_path, monkeypatch):
    pruning = load(ROOT / "examples/benchmarks/pruning.py", monkeypatch)
    rng, y = np.random.default_rng(0), np.arange(80) % 4
    np.savez(tmp_path / "texts.npz", x=rng.normal(size=(80, 12)) + 4 * np.eye(4, 12)[y], y=y)
    quick = ["--sizes", "200", "--k", "6", "--epochs", "12", "--seeds", "2", "--threshold", "0.3"]
    files = ["--embeddings", str(tmp_path / "texts.npz"), "--output", str(tmp_path / "out")]
    table = pruning.main([*quick, *files])
    assert table["data"].tolist() == ["texts"] * 3 + ["mixture"] * 3
    assert table["way"].tolist() == ["all edges", "share 0.05", "share 1"] * 2
    whole, limited, free = (table[table["way"] == way] for way in table["way"].unique())
    assert (whole["edges left"] == 1).all()
    assert (whole["moved"] == 0).all()
    assert free["edges left"].iloc[1] < limited["edges left"].iloc[1] <= 1
    assert (table["moved"] < 1).all()
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"pruning.csv", "pruning.md", "pruning.png", "pruning_epochs.csv"}


def test_the_benchmark_of_self_training(tmp_path, monkeypatch):
    benchmark = load(ROOT / "examples/benchmarks/self_training.py", monkeypatch)
    args = benchmark.parse_args(["--classes", "3", "--channels", "8", "--k", "6"])
    torch.save(benchmark.mixture(300, args), tmp_path / "graph.pt")
    found = benchmark.train(tmp_path / "graph.pt", num_classes=3, seed=0)
    parts = [f"{name} s" for name in benchmark.PARTS]
    assert all(found[part] > 0 for part in parts)
    assert sum(found[part] for part in parts) < found["seconds"]
    assert found["ARI"] > 0.8


@pytest.mark.slow
def test_self_training_by_an_earlier_commit(tmp_path, monkeypatch):
    benchmark = load(ROOT / "examples/benchmarks/self_training.py", monkeypatch)
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True).returncode:
        pytest.skip("not in a clone")
    sizes = ["--nodes", "300", "--classes", "3", "--channels", "8", "--k", "6"]
    table = benchmark.main([*sizes, "--before", "HEAD", "--output", str(tmp_path)])
    assert table["way"].tolist() == ["now", "before"]
    assert table["seconds / now"][0] == 1
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md"}


def test_the_benchmark_of_neighbours(tmp_path, monkeypatch):
    neighbours = load(ROOT / "examples/benchmarks/neighbours.py", monkeypatch)
    monkeypatch.setattr(neighbours, "SIZES", [500, 900])
    table = neighbours.main(
        [*("--features", "8", "--k", "4", "--num-graphs", "3"), "--output", str(tmp_path)]
    )
    assert table["way"].tolist() == ["flat", "ivf", "hnsw", "torch", "sklearn", "graph"] * 2
    assert (table["recall"][table["way"] == "flat"] == 1).all()
    assert (table["flat / this"][table["way"] == "flat"] == 1).all()
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md", ".png"}


@pytest.mark.slow
def test_the_benchmark_of_levels(tmp_path, monkeypatch):
    levels = load(ROOT / "examples/benchmarks/levels.py", monkeypatch)
    output = ["--quick", "--output", str(tmp_path / "levels.md")]
    runs = levels.main(output)
    assert 0 < runs["first"].item() <= runs["best"].item() <= 1
    monkeypatch.setattr(levels, "measure", None)  # what is there is not run again
    assert levels.main(output)["first"].item() == pytest.approx(runs["first"].item())


@pytest.mark.slow
def test_the_benchmark_of_topics(tmp_path, monkeypatch):
    pytest.importorskip("bertopic")
    topics = load(ROOT / "examples/benchmarks/bertopic_topics.py", monkeypatch)
    output = ["--quick", "--output", str(tmp_path)]
    runs = topics.main(output)
    assert len(runs) == 4
    assert runs["without a topic"].between(0, 1).all()
    assert (runs["without a topic"][runs["way"].str.startswith("Diff")] == 0).all()
    assert runs["coherence"].between(-1, 1).all()
    assert (tmp_path / "bertopic.md").read_text().count("| quick |") == 4
    monkeypatch.setattr(topics, "fits", lambda *_: dict.fromkeys(runs["way"]))  # none runs again
    assert topics.main(output)["ari"].tolist() == pytest.approx(runs["ari"].tolist(), abs=1e-5)
    texts = ["sun moon", "sun moon", "rain", "snow"]
    assert topics.coherence([["sun", "moon"]], texts) == pytest.approx(1)  # always together
    assert topics.coherence([["sun", "rain"]], texts) == -1  # never


@pytest.mark.slow
def test_the_benchmark_of_choices(tmp_path, monkeypatch):
    choosing = load(ROOT / "examples/benchmarks/choosing.py", monkeypatch)
    by_time, by_k = choosing.main(
        [*("--times", "0", "5", "--k", "5", "30", "--seeds", "1"), "--output", str(tmp_path)]
    )
    assert by_time["ARI"][1] > by_time["ARI"][0] + 0.05  # heat helps
    assert by_k["ARI"].min() > 0.7
    assert by_k["modularity"][0] > by_k["modularity"][1]  # which says nothing about k
    assert by_k["purity"][0] > by_k["purity"][1]


@pytest.mark.slow
def test_the_benchmark_of_alignment(tmp_path, monkeypatch):
    alignment = load(ROOT / "examples/benchmarks/alignment.py", monkeypatch)
    quick = ["--one-process", "--repeats", "1", "--splits", "1", "--peer-points", "10"]
    sizes = ["--sizes", "300x350", "--points", "200"]
    ways = ["--ways", "Geo", "gromov", "balanced", "semirelaxed", "POT", "torchgw"]
    table = alignment.main([*quick, *sizes, *ways, "--output", str(tmp_path)])
    assert set(table["case"]) == {"spiral", "texts", "missing"}
    is_peer = table["way"].str.startswith(("torchgw", "POT"))
    assert table["note"][is_peer].str.contains("not run|not installed").all()
    ours = table[~is_peer].set_index("way")
    assert float(ours["abs. rho"]["GeodesicCost"]) > 0.99
    assert float(ours["P@1"]["gromov_wasserstein"]) > 0.9
    missing = ours["on missing"].loc["balanced":].astype(float)
    assert missing.iloc[1] < missing.iloc[0] < 0.3
    assert (ours["CPU s"] > 0).all()
    assert {path.name for path in tmp_path.iterdir()} == {"alignment.csv", "alignment.md"}


def test_the_benchmark_of_alignment_beside_pot(tmp_path, monkeypatch):
    pytest.importorskip("ot")
    alignment = load(ROOT / "examples/benchmarks/alignment.py", monkeypatch)
    quick = ["--one-process", "--repeats", "1", "--splits", "1", "--cases", "spiral", "missing"]
    sizes = ["--sizes", "60x70", "--points", "120", "--ways", "POT gro", "POT semi"]
    table = alignment.main([*quick, *sizes, "--output", str(tmp_path)])
    assert table["way"].tolist() == ["POT gromov_wasserstein", "POT semi-relaxed"]
    assert table["marginals off by"][0] < 1e-9
    assert (table["CPU s"] > 0).all()


def test_a_process_of_the_benchmark_of_alignment_tells_what_it_measured(monkeypatch):
    alignment = load(ROOT / "examples/benchmarks/alignment.py", monkeypatch)
    ours, theirs = multiprocessing.Pipe(duplex=False)
    args = alignment.parse_args(["--repeats", "2"])
    alignment.tell(theirs, alignment.Run(args, "spiral", "60x70", 0, "GeodesicCost"))
    found = ours.recv()
    assert found["CPU s"] > 0
    assert found["peak MB"] >= 0
    assert 0 < found["marginals off by"] < 0.01
    assert 0 <= found["abs. rho"] <= 1


def test_aligning_embeddings(tmp_path, monkeypatch, capsys):
    example = load(ROOT / "examples/align_embeddings.py", monkeypatch)
    rows = example.main(["--points", "120", "--splits", "1", "--output", str(tmp_path)])
    assert rows["starts"].tolist() == [*example.WAYS]
    found = rows[rows["starts"] == "all starts"]
    assert (found["P@1"] > 0.9).all()
    assert (found["label transfer"] > 0.95).all()
    assert (found["relative cost"] < 0.5).all()
    assert len(pd.read_csv(tmp_path / "alignment.csv")) == 2
    assert (tmp_path / "alignment.png").stat().st_size > 10_000
    assert f"{found['P@1'].mean():.3f}" in capsys.readouterr().out


def test_aligning_halves_of_embeddings_without_labels(tmp_path, monkeypatch, capsys):
    example = load(ROOT / "examples/align_embeddings.py", monkeypatch)
    x = np.random.default_rng(0).normal(size=(120, 4)) ** 3 @ np.ones((1, 1)).repeat(4, 0)
    x = np.concatenate([x, np.random.default_rng(1).normal(size=(120, 11)) ** 3], 1)
    x = np.concatenate([x, np.zeros((30, 12)) + np.arange(12) + 1])  # all the same
    np.save(tmp_path / "mine.npy", x)
    options = ["--dataset", str(tmp_path / "mine.npy"), "--splits", "1", "--no-ablation"]
    rows = example.main([*options, "--output", str(tmp_path)])
    assert "30 points that share their embedding" in capsys.readouterr().out
    assert list(rows.columns) == ["split", "starts", "P@1", "relative cost", "perplexity", "CPU s"]
    assert (tmp_path / "alignment.png").exists()


def test_the_relative_cost_of_the_independent_plan_is_one(monkeypatch):
    example = load(ROOT / "examples/align_embeddings.py", monkeypatch)
    x, y = (torch.randn(30, dim, generator=torch.Generator().manual_seed(dim)) for dim in (3, 5))
    pair = example.Pair(x, y, torch.arange(30), None, [])
    plan = example.gromov_wasserstein(x, y, epsilon=50.0, starts=("zero",), progress=False)
    assert plan.perplexity().min() > 29.9
    assert plan.cost == pytest.approx(example.independent_cost(pair), rel=1e-4)


def test_aligning_cells(tmp_path, monkeypatch, capsys):
    example = load(ROOT / "examples/align_cells.py", monkeypatch)
    rows = example.main(["--cells", "150", "--seeds", "2", "--output", str(tmp_path)])
    assert rows["cells"].tolist() == ["simulated 0", "simulated 1"]
    assert rows["FOSCTTM"].between(0, 1).all()
    assert rows["label transfer"].between(0, 1).all()
    page = (tmp_path / "align_cells.md").read_text()
    assert f"{rows['FOSCTTM'][0]:.4f}" in page
    assert (tmp_path / "align_cells_simulated_1.png").stat().st_size > 10_000


def test_foscttm_counts_the_cells_that_are_closer(monkeypatch):
    example = load(ROOT / "examples/align_cells.py", monkeypatch)
    x = torch.tensor([[0.0], [1.0], [3.0]])
    assert example.foscttm(x, x, torch.arange(3)) == 0
    # From 0.4 its own row, 3, is the farthest; the others sit on their own rows.
    projected = torch.tensor([[0.0], [1.0], [0.4]])
    assert example.foscttm(projected, x, torch.arange(3)) == pytest.approx(2 / 6)


def test_cells_of_a_file_in_another_order(tmp_path, monkeypatch):
    example = load(ROOT / "examples/align_cells.py", monkeypatch)
    pair = example.simulate(60, seed=0)
    kinds = np.array(["b", "a"])[pair.cell_type.numpy() % 2]
    np.savez(
        tmp_path / "scgem.npz", expression=pair.source, methylation=pair.source, cell_type=kinds
    )
    scores, _, order = example.align(example.read(tmp_path / "scgem.npz"), seed=3)
    assert not torch.equal(order, torch.arange(60))
    assert scores["FOSCTTM"] < 0.01  # both sides are the same
    assert scores["label transfer"] > 0.95


def test_the_benchmark_of_graph_matching(tmp_path, monkeypatch):
    benchmark = load(ROOT / "examples/benchmarks/graph_matching.py", monkeypatch)
    options = ["--sizes", "60", "--seeds", "1", "--graphs", "preferential", "blocks"]
    benchmark.main([*options, "--ways", "ours", "FAQ", "--output", str(tmp_path)])
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md"}


def test_the_benchmark_of_real_graphs(tmp_path, monkeypatch):
    benchmark = load(ROOT / "examples/benchmarks/alignment_real.py", monkeypatch)
    ends = np.random.default_rng(0).integers(60, size=(150, 2))
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], 1), axis=0)
    graph = np.searchsorted(np.unique(ends), ends)
    size = int(graph.max()) + 1
    np.savez(tmp_path / "mine.npz", num_nodes=size, edges=graph)
    np.savez(tmp_path / "versions.npz", num_nodes=size, edges_100=graph, edges_90=graph[15:])
    pair = tmp_path / "pair"
    pair.mkdir()
    for name in ("G1", "G2"):
        np.savetxt(pair / f"{name}.edgelist", graph, fmt="%d")
    names = {str(node): node for node in range(size)}
    (pair / "Alignment.json").write_text(json.dumps(names))
    out = tmp_path / "out"
    options = ["--data", str(tmp_path), "--output", str(out), "--one-process", "--seeds", "1"]
    options += ["--graphs", "mine", "versions", "pair", "--ways", "ours", "FAQ (SciPy)", "FUGAL"]
    options += ["--kinds", "two-way", "real", "--noise", "10"]
    rows = benchmark.main(options)
    assert rows.groupby("way")["accuracy"].count().to_dict() == {
        "FAQ (SciPy)": 3,
        "FUGAL": 0,
        "ours": 3,
    }
    ours = rows[rows["way"] == "ours"].set_index("graph")
    assert (ours.loc["pair", ["twins", "overlap", "true overlap"]] == 1).all()
    assert ours.loc["mine", "true overlap"] < 1 == ours.loc["versions", "true overlap"]
    scores = rows[["accuracy", "twins", "overlap", "MRR", "Hits@5"]].dropna()
    assert ((scores >= 0) & (scores <= 1)).all(axis=None)
    assert (scores["accuracy"] <= scores[["twins", "MRR", "Hits@5"]].min(axis=1)).all()
    page = (out / "alignment_real.md").read_text()
    assert "- FUGAL: no --peers (" in page
    assert (out / "alignment_real.png").stat().st_size > 10_000
    monkeypatch.setattr(benchmark, "measure", None)  # nothing is left to run
    pd.testing.assert_frame_equal(benchmark.main(options), rows)


def test_the_benchmark_of_confidence(tmp_path, monkeypatch):
    benchmark = load(ROOT / "examples/benchmarks/alignment_confidence.py", monkeypatch)
    monkeypatch.setattr(benchmark, "GRAPHS", ("random",))
    monkeypatch.setattr(benchmark, "LEVELS", (10,))
    monkeypatch.setattr(benchmark, "POINTS", ("curve",))
    options = ["--seeds", "1", "--nodes", "30", "31"]
    rows = benchmark.main([*options, "--output", str(tmp_path)]).set_index("case")
    assert (rows.loc[["random, unrelated", "curve, unrelated"], "right"] == 0).all()
    assert rows.loc["random, unrelated", "confidence"] < rows.loc["random", "confidence"] - 0.3
    assert "| curve |" in (tmp_path / "alignment_confidence.md").read_text()
    assert benchmark.main([*options, "--fit", "--models", "graphs"]) is None


def test_scores_of_real_graphs_know_twins_and_nodes_without_a_partner(monkeypatch):
    cases = load(ROOT / "examples/benchmarks/alignment_cases.py", monkeypatch)
    star = cases._matrix(np.array([[0, 1], [0, 2], [0, 3], [3, 4]]), 5)
    case = cases.Case(star, star, np.array([0, 1, 2, 3, -1]))
    swapped, lost = np.array([0, 2, 1, 3, 4]), np.array([0, 1, 2, -1, 3])
    fit = np.eye(5)[swapped] + 0.5 * np.eye(5)
    found = cases.scores(case, swapped, fit)
    assert (found["accuracy"], found["twins"], found["overlap"]) == (0.5, 1, 1)
    assert (found["MRR"], found["Hits@5"], found["true overlap"]) == (0.75, 1, 0.75)
    found = cases.scores(case, lost, None)
    assert (found["accuracy"], found["twins"], found["overlap"]) == (0.75, 0.75, 0.5)
    assert found["MRR"] == pytest.approx((3 + 1 / 3) / 4)


@pytest.mark.slow
def test_the_benchmark_of_many_pairs(tmp_path, monkeypatch):
    pytest.importorskip("ot")
    benchmark = load(ROOT / "examples/benchmarks/many_pairs.py", monkeypatch)
    options = ["--pairs", "6", "--sizes", "4", "7", "--repeats", "1", "--proximal", "2"]
    table = benchmark.main([*options, "--output", str(tmp_path)])
    assert set(table["case"]) == {"graphs", "clouds"}
    assert (table["s (all pairs)"] > 0).all()
    assert {path.name for path in tmp_path.iterdir()} == {"many_pairs.csv", "many_pairs.md"}


def test_unseen_documents(tmp_path, monkeypatch):
    unseen = load(ROOT / "examples/unseen_documents.py", monkeypatch)
    y = np.arange(150) % 3
    x = np.random.default_rng(0).normal(size=(150, 6)) + 3 * np.eye(3, 6)[y]
    np.savez(tmp_path / "mine.npz", x=x, y=y)
    options = ["--epochs=2", "--seeds=2", "--k=6", f"--output={tmp_path}"]
    table = unseen.main([*options, f"--embeddings={tmp_path / 'mine.npz'}"])
    assert table.index.tolist() == ["raw", "extended", "refitted"]
    rows = pd.read_csv(tmp_path / "unseen_documents.csv")
    assert len(rows) == 6
    extended = rows[rows["way"] == "extended"]
    assert extended["refitted edges kept"].between(0.3, 0.999).all()
    assert (extended["cosine to refitted"] > 0.9).all()
    assert (rows["purity"] > 0.6).all()
    assert "| extended | " in (tmp_path / "unseen_documents.md").read_text()


def test_heat_in_pipelines_of_scikit_learn(tmp_path, monkeypatch, capsys):
    estimators = load(ROOT / "examples/estimators.py", monkeypatch)
    monkeypatch.setattr(estimators, "find_spec", lambda name: None)  # UMAP takes long to load
    options = ["--points=300", "--seeds=1", "--labels=3", f"--output={tmp_path}"]
    tables = estimators.main(options)
    ari = tables["clusters"].set_index("clusters of")["ARI"]
    assert ari["heat, KMeans"] > ari["KMeans"]
    assert ari["heat, HDBSCAN"] > ari["HDBSCAN"]
    assert (tables["new"]["ARI of new points"] > 0.4).all()
    assert (tables["few_labels"]["new points"] > 0.5).all()
    out = capsys.readouterr().out
    assert "| heat, KMeans | " in out
    assert "UMAP is not installed: its rows are left out" in out
    for name in ("clusters", "new", "few_labels"):
        pd.testing.assert_frame_equal(
            pd.read_csv(tmp_path / f"estimators_{name}.csv"), tables[name], check_dtype=False
        )


@pytest.mark.slow
def test_heat_before_umap(tmp_path, monkeypatch):
    estimators = load(ROOT / "examples/estimators.py", monkeypatch)
    threads = torch.get_num_threads()
    options = ["--points=200", "--seeds=1", "--labels=3", "--umap-epochs=20"]
    tables = estimators.main([*options, f"--output={tmp_path}"])
    torch.set_num_threads(threads)  # which numba raises for UMAP
    assert {"UMAP, HDBSCAN", "heat, UMAP, HDBSCAN"} <= set(tables["clusters"]["clusters of"])
    assert (tmp_path / "estimators.png").stat().st_size > 10_000


def test_the_benchmark_of_hypergraphs(tmp_path, monkeypatch):
    benchmark = load(ROOT / "examples/benchmarks/hypergraph.py", monkeypatch)
    table = benchmark.main(
        (
            "--tokens 6 --experts 4 --channels 3 --many-experts 5 --many-tokens 2 "
            f"--repeats 1 --devices cpu --output {tmp_path}"
        ).split()
    )
    assert len(table) == 4 * 4
    assert (table["peak MB"] > 0).all()
    assert (table.loc[table["way"] == benchmark.BATCH, "replicated / this, forward"] == 1).all()
    assert {path.name for path in tmp_path.iterdir()} == {
        f"hypergraph.{suffix}" for suffix in ("csv", "md", "png")
    }


def test_the_example_of_coupled_experts(tmp_path, monkeypatch):
    example = load(ROOT / "examples/expert_coupling.py", monkeypatch)
    x, coupler = torch.randn(3, 6, 4), example.ExpertCoupler(6, 4, size=3, num_layers=2)
    assert torch.equal(coupler(x), x)
    assert coupler.hyperedge_weight.shape == (2, 20)
    table = example.main(
        (
            "--experts 4 --channels 8 --hyperedges 3 --epochs 6 --lr 0.02 --seeds 1 "
            f"--output {tmp_path}"
        ).split()
    )
    assert (table["accuracy"] > 0.8).all()
    assert table["parameters"]["with coupler"] > table["parameters"]["without coupler"]
    for name in ("training.png", "weights.png"):
        assert (tmp_path / name).stat().st_size > 10_000
    assert "aten::bmm" in (tmp_path / "profile.txt").read_text()


@pytest.fixture
def semi_supervised(monkeypatch):
    return load(ROOT / "examples/semi_supervised.py", monkeypatch)


@pytest.mark.parametrize(
    "models", [["GCN", "anisotropic heat"], pytest.param(None, marks=pytest.mark.slow)]
)
def test_semi_supervised_learning_without_a_file(semi_supervised, tmp_path, models):
    models = models or list(semi_supervised.MODELS)
    table = semi_supervised.main(["--quick", "--models", *models, "--output", str(tmp_path)])
    assert len(table) == len(models) * len(semi_supervised.TRAININGS)
    ours = table[table["model"] == "anisotropic heat"]
    assert (ours["mean"] > 45).all()  # chance is 25
    assert table["mean"].between(0, 100).all()
    assert len(pd.read_csv(tmp_path / "semi_supervised.csv")) == 2 * len(table)  # seeds
    assert "| synthetic | plain | GCN |" in (tmp_path / "semi_supervised.md").read_text()


def test_an_interrupted_comparison_goes_on(semi_supervised, tmp_path, monkeypatch):
    evaluate, ran = semi_supervised.evaluate, []

    def evaluate_or_stop(data, model, recipe, seed):
        if len(ran) == 3:
            raise KeyboardInterrupt
        ran.append((model, seed))
        return evaluate(data, model, recipe, seed)

    options = ["--quick", "--models", "GCN", "APPNP", "--trainings", "plain"]
    options += ["--output", str(tmp_path)]
    monkeypatch.setattr(semi_supervised, "evaluate", evaluate_or_stop)
    with pytest.raises(KeyboardInterrupt):
        semi_supervised.main(options)
    ran.clear()
    table = semi_supervised.main(options)
    assert ran == [("APPNP", 1)]
    monkeypatch.setattr(semi_supervised, "evaluate", evaluate)
    fresh = semi_supervised.main([*options[:-1], str(tmp_path / "fresh")])
    pd.testing.assert_frame_equal(table.drop(columns="seconds"), fresh.drop(columns="seconds"))


def test_a_changed_recipe_runs_anew(semi_supervised, tmp_path, monkeypatch):
    options = ["--quick", "--models", "GCN", "--trainings", "plain", "--output", str(tmp_path)]
    semi_supervised.main(options)
    monkeypatch.setitem(semi_supervised.TUNED, ("synthetic", "plain", "GCN"), {"word_dropout": 0.1})
    table = semi_supervised.main(options)
    assert table["seeds"].tolist() == [2]  # not together with those of the old recipe
    assert len(pd.read_csv(tmp_path / "semi_supervised.csv")) == 2


def test_the_search_of_semi_supervised_learning_sees_no_test_node(
    semi_supervised, tmp_path, monkeypatch, capsys
):
    seen = []
    scores = semi_supervised.scores
    monkeypatch.setattr(
        semi_supervised, "scores", lambda *args: seen.append(args[2]) or scores(*args)
    )
    models = ["--models", "GCN", "--trainings", "plain"]
    table = semi_supervised.main(["--quick", "--tune", *models, "--output", str(tmp_path)])
    assert table.empty
    assert list(tmp_path.iterdir()) == []
    data = semi_supervised.load("synthetic", None)
    assert all(torch.equal(mask, data.val_mask) for mask in seen)
    assert not (data.val_mask & data.test_mask).any()
    assert capsys.readouterr().out.count("best: {'word_dropout'") == 1


def test_views_that_agree_have_no_disagreement(semi_supervised):
    certain = torch.tensor([[[40.0, 0.0], [0.0, 40.0]]])
    torch.testing.assert_close(
        semi_supervised.disagreement(certain.expand(3, 2, 2), 0.5), torch.tensor(0.0)
    )
    apart = torch.stack([certain[0], certain[0].flip(-1)])  # the mean is undecided
    torch.testing.assert_close(semi_supervised.disagreement(apart, 0.5), torch.tensor(0.5))


def test_a_random_view_hides_whole_nodes_and_keeps_the_mean(semi_supervised):
    torch.manual_seed(0)
    x = torch.ones(2000, 10).to_sparse_csr()
    recipe = semi_supervised.Recipe(node_dropout=0.5, word_dropout=0.0)
    view = semi_supervised.random_view(x, recipe).to_dense()
    assert set(view.unique().tolist()) == {0.0, 2.0}
    assert (view == view[:, :1]).all()
    assert 0.9 < view.mean() < 1.1


def test_the_code_of_the_readme(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    namespace = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    assert namespace["out"].shape == (1797, 10)
    out = capsys.readouterr().out
    assert "ARI 0.646" in out  # as the comments there say
    assert "ari=0.82" in out


def test_diffusion_on_processes_that_share_a_graph(tmp_path, monkeypatch, capsys):
    meeting = {"MASTER_ADDR": "localhost", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
    for name, value in meeting.items():
        monkeypatch.setenv(name, value)
    example = load(ROOT / "examples/distributed_diffusion.py", monkeypatch)
    example.main(["--epochs", "2", "--output", str(tmp_path)])
    assert "DistributedGraph(rank=0 of 1, num_nodes=1797 of 1797" in capsys.readouterr().out
    assert np.load(tmp_path / "diffused.npy").shape == (1797, 64)


@pytest.mark.slow
def test_the_benchmark_of_processes(tmp_path, monkeypatch):
    benchmark = load(ROOT / "examples/benchmarks/distributed.py", monkeypatch)
    quick = ["--num-nodes", "2000", "--time-nodes", "1000", "--channels", "4", "--terms", "5"]
    sent, _ = benchmark.main([*quick, "--repeats", "1", "--processes", "--output", str(tmp_path)])
    of_parts = sent[sent["parts"] == 16].set_index("order")["MB a term, all"]
    assert of_parts["metis"] < of_parts["hilbert"] < of_parts["random"]
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md"}


def test_the_commands_of_the_readme_name_what_exists():
    readme = (ROOT / "README.md").read_text()
    for path in ("examples/learn_diffusion.py", ".ci/test", "constraints.txt"):
        assert path in readme
        assert (ROOT / path).exists()
    assert "bash .ci/test" in (ROOT / ".ci/run").read_text()


@pytest.mark.parametrize("split", ["public", "random"])
def test_only_the_convolution_replaced(tmp_path, monkeypatch, split, capsys):
    drop_in = load(ROOT / "examples/drop_in.py", monkeypatch)
    path = tmp_path / "runs.csv"
    drop_in.main(["--quick", "--conv", *drop_in.CONVS, "--split", split, "--output", str(path)])
    runs = pd.read_csv(path)
    assert set(runs["conv"]) == set(drop_in.CONVS)
    assert len(runs) == 2 * len(drop_in.CONVS)  # seeds
    assert runs["test"].between(0, 100).all()
    assert runs["test"].notna().all()
    assert "ours_curvature" in capsys.readouterr().out


def test_only_the_convolution_replaced_where_edges_are_guessed(tmp_path, monkeypatch):
    links = load(ROOT / "examples/drop_in_links.py", monkeypatch)
    path = tmp_path / "runs.csv"
    convs = ["gcn", "ours_curvature"]
    table = links.main(["--quick", "--conv", *convs, "--output", str(path)])
    assert list(table.index) == [(script, conv) for script in links.SCRIPTS for conv in convs]
    runs = pd.read_csv(path)
    assert len(runs) == 2 * 2 * 2  # scripts, convolutions, seeds
    assert runs["test"].between(0, 100).all()


def tiny_encoder(folder, words):
    """A BERT of one layer with a word for every token, in the form of sentence-transformers."""
    from sentence_transformers import SentenceTransformer, models
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers import models as kinds
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *words])}
    tokens = Tokenizer(kinds.WordLevel(vocabulary, unk_token="[UNK]"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    kept = PreTrainedTokenizerFast(
        tokenizer_object=tokens, pad_token="[PAD]", unk_token="[UNK]", model_max_length=8
    )
    kept.save_pretrained(folder / "bert")
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    BertModel(config).save_pretrained(folder / "bert")
    bert = models.Transformer(str(folder / "bert"), max_seq_length=8)
    model = SentenceTransformer(modules=[bert, models.Pooling(16)], device="cpu")
    model.save_pretrained(str(folder / "encoder"))
    return folder / "encoder"


def test_pygs_example_with_our_model(monkeypatch):
    example = load(ROOT / "examples/pyg_gcn.py", monkeypatch)
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) // 20
    edges = torch.stack([torch.arange(59), torch.arange(1, 60)])
    data = Data(torch.eye(3)[y] + torch.randn(60, 3, generator=generator), y=y)
    data.edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    data.train_mask = torch.arange(60) % 3 == 0
    data.val_mask = data.test_mask = ~data.train_mask
    assert example.run(data, 3, example.parse_args(["--epochs", "60"])) > 0.8


@pytest.mark.parametrize("more", [[], ["--kmeans", "--no-balance"]])
@pytest.mark.filterwarnings("ignore")  # of transformers
def test_an_encoder_learns_the_clusters_of_its_documents(tmp_path, monkeypatch, more):
    pytest.importorskip("sentence_transformers")
    example = load(ROOT / "examples/reteach_encoder.py", monkeypatch)
    texts, _, y = load(ROOT / "examples/benchmarks/words.py", monkeypatch)._quick()
    pd.DataFrame({"text": texts, "topic": y}).to_csv(tmp_path / "texts.csv", index=False)
    encoder = tiny_encoder(tmp_path, sorted(set(" ".join(texts).split())))
    options = [str(tmp_path / "texts.csv"), "--classes", "3", "--labels", "topic"]
    options += ["--model", str(encoder), "--batch", "15", "--lr", "0.001", *more]

    def run(name, *rest):
        return example.main([*options, "--output", str(tmp_path / name), *rest])

    whole = run("whole")
    assert whole["round"].tolist() == [0, 1]
    assert whole["acc"].iloc[-1] > 0.9
    if more:
        return
    with pytest.raises(SystemExit, match="stopped"):
        run("killed", "--stop-after", "3")
    pd.testing.assert_frame_equal(run("killed"), whole)
    one, other = (
        load_file(tmp_path / name / "round_1/model.safetensors") for name in ("whole", "killed")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)
    before = load_file(encoder / "model.safetensors")
    assert any(not torch.equal(one[name], before[name]) for name in one)
    taught = embed_texts(texts[:2], tmp_path / "whole/round_1", progress=False)
    assert taught.shape == (2, 16)


def test_classes_are_balanced(monkeypatch):
    """Against the plan of equal masses that its own marginals prove."""
    example = load(ROOT / "examples/reteach_encoder.py", monkeypatch)
    p = torch.rand(60, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([5.0, 1, 1])
    p = p / p.sum(1, keepdim=True)
    plan = example.balance(p)
    torch.testing.assert_close(plan.sum(1), torch.ones(60))
    torch.testing.assert_close(plan.sum(0), torch.full((3,), 20.0), atol=1e-3, rtol=0)
    ratio = plan / p  # of a plan: factors of rows times factors of columns
    torch.testing.assert_close(ratio[:, 1] / ratio[:, 0], (ratio[0, 1] / ratio[0, 0]).expand(60))


def test_words_beside_embeddings(tmp_path, monkeypatch, capsys):
    example = load(ROOT / "examples/benchmarks/words.py", monkeypatch)
    options = ["--quick", "--output", str(tmp_path)]
    runs = example.main(options)
    ari = runs.groupby("weight")["ari"].mean()
    assert ari[0.5] > ari[0.0] + 0.2
    assert "| quick | 0.5 | " in capsys.readouterr().out
    monkeypatch.setattr(example, "run", None)  # what is there is not run again
    assert len(example.main(options)) == len(runs)


def test_where_edges_join_unlike_nodes(tmp_path, monkeypatch, capsys):
    example = load(ROOT / "examples/heterophilous.py", monkeypatch)
    runs = example.main(["--quick", "--output", str(tmp_path)])
    assert len(runs) == 2 * len(example.VARIANTS)  # splits
    assert runs["test"].between(0, 100).all()
    out = capsys.readouterr().out
    assert "`ends` less `open`" in out
    assert "`ends_maps` less `open_maps`" in out

    def fail(*_):
        raise AssertionError("what is there is not run again")

    monkeypatch.setattr(example, "run", fail)
    again = example.main(["--quick", "--output", str(tmp_path)])
    assert again.equals(runs)


@pytest.mark.parametrize(
    "more", [[], pytest.param(["tv", "open", "grid", "other"], marks=pytest.mark.slow)]
)
def test_pictures_learn_to_denoise_themselves(tmp_path, monkeypatch, capsys, more):
    example = load(ROOT / "examples/denoising.py", monkeypatch)
    monkeypatch.setattr(example, "HEAT_TIMES", [0.5, 2.0])
    methods = ["noisy", "heat", "learned", *more]
    options = ["--quick", "--output", str(tmp_path), "--methods", *methods]
    runs = example.main(options)
    assert len(runs) == 2 * len(methods)  # pictures
    psnr = runs.pivot(index="picture", columns="method", values="psnr")
    assert (psnr.drop(columns="noisy").min(axis=1) > psnr["noisy"] + 3).all()
    assert "| learned | " in capsys.readouterr().out

    def fail(*_):
        raise AssertionError("what is there is not run again")

    monkeypatch.setattr(example.Task, "run", fail)
    assert example.main(options).equals(runs)


@pytest.mark.parametrize("kind", ["colour", "grey"])
def test_non_local_means_see_pictures_of_either_kind(monkeypatch, kind):
    example = load(ROOT / "examples/denoising.py", monkeypatch)
    monkeypatch.setattr(example, "PICTURES", example.DRAWN)
    monkeypatch.setattr(example, "NLM_SETTINGS", [(3, 6, 0.8)])
    task = example.Task("disc", kind, 0.1, 0)
    picture, _ = task.run_nlm()
    assert picture.shape == task.noisy.shape == (3 if kind == "colour" else 1, *picture.shape[1:])
    assert task.psnr(picture) > task.psnr(task.noisy) + 3


@pytest.mark.parametrize("kind", ["colour", "grey"])
def test_a_large_picture_is_denoised_piece_by_piece(monkeypatch, kind):
    example = load(ROOT / "examples/denoising.py", monkeypatch)
    denoiser = example.self_denoiser
    monkeypatch.setattr(example, "PICTURES", example.DRAWN)
    task = example.Task("large disc", kind, 0.1, 0)
    graph = example.picture_graph(task.noisy, 0.1)
    model = denoiser.Denoiser(graph.attr.size(1), len(task.noisy))
    whole = example.denoise_picture(model, task.noisy, 0.1)
    sizes, make = [], denoiser.picture_graph

    def seen(part, noise):
        sizes.append(tuple(part.shape[1:]))
        return make(part, noise)

    monkeypatch.setattr(denoiser, "picture_graph", seen)
    monkeypatch.setattr(denoiser, "PIECE", 30)
    apart = example.denoise_picture(model, task.noisy, 0.1)
    height, width = task.noisy.shape[1:]
    assert len(sizes) == -(-height // 30) * -(-width // 30) > 1
    assert max(max(size) for size in sizes) <= 30 + 2 * denoiser.MARGIN
    noise = (task.noisy - whole).square().mean().sqrt()
    assert (apart - whole).square().mean().sqrt() < 0.01 * noise
    assert (apart - whole).abs().max() < 0.1 * noise


def test_a_picture_of_ones_own_is_denoised(tmp_path, monkeypatch, capsys):
    from skimage import io

    example = load(ROOT / "examples/denoising.py", monkeypatch)
    torch.manual_seed(0)
    clean = example.load("disc", "grey")
    noisy = (255 * (clean + 0.1 * torch.randn(clean.shape)).clamp(0, 1)).byte().squeeze(0).numpy()
    io.imsave(tmp_path / "mine.png", noisy)
    options = ["--picture", str(tmp_path / "mine.png"), "--output", str(tmp_path)]
    example.main(["--quick", *options])
    out = io.imread(tmp_path / "denoised.png")
    assert out.shape == noisy.shape
    errors = [float(abs(each / 255 - clean[0].numpy()).mean()) for each in (noisy, out)]
    assert errors[1] < 0.7 * errors[0]
    assert "noise: 0." in capsys.readouterr().out


def test_normals_and_expression_learn_to_denoise_themselves(tmp_path, monkeypatch):
    example = load(ROOT / "examples/denoising_signals.py", monkeypatch)
    runs = example.main(["--quick", "--output", str(tmp_path)])
    error = runs.pivot(index="task", columns="method", values="error")
    assert error[["noisy", "heat", "open", "learned"]].notna().all(axis=None)
    is_expression = error.index.str.startswith("expression")
    assert is_expression.sum() == 2
    assert (error["learned"] < 0.5 * error["noisy"])[is_expression].all()  # after four steps
    assert (tmp_path / "denoising_signals.csv").exists()


def test_points_of_the_shapes_lie_on_them_and_normals_stand_on_them(monkeypatch):
    example = load(ROOT / "examples/denoising_signals.py", monkeypatch)
    torch.manual_seed(0)
    points, normals = example.shape("cube", 400)
    torch.testing.assert_close(points.abs().max(1).values, torch.ones(400))
    torch.testing.assert_close((points * normals).sum(1), torch.ones(400))
    points, normals = example.shape("half disc", 400)
    torch.testing.assert_close(normals.norm(dim=1), torch.ones(400))
    is_cap, is_flat = normals[:, 2].abs() > 0.5, normals[:, 1] < -0.5
    is_round = ~(is_cap | is_flat)
    assert {bool(each.any()) for each in (is_cap, is_flat, is_round)} == {True}
    assert (points[is_cap, 2] == (normals[is_cap, 2] > 0)).all()
    assert (points[is_flat, 1] == 0).all()
    torch.testing.assert_close(points[is_round, :2], normals[is_round, :2])
    assert (points[:, :2].norm(dim=1) <= 1 + 1e-6).all()
    assert (points[:, 1] >= 0).all()


def test_three_rounds_of_learning_find_the_creases(monkeypatch):
    example = load(ROOT / "examples/denoising_signals.py", monkeypatch)
    monkeypatch.setattr(example.self_denoiser, "STEPS", 40)
    monkeypatch.setattr(example.self_denoiser, "TILES", 2)
    torch.manual_seed(0)
    errors = example.denoise_normals("cube", 600, 0.2)
    assert errors["learned"] < 0.6 * min(errors["heat"], errors["open"])


@pytest.fixture
def surfaces(monkeypatch):
    return load(ROOT / "examples/surfaces.py", monkeypatch)


SMALL_SURFACES = ["--meshes", "5", "--epochs", "1", "--probes", "16"]


def test_heat_on_surfaces(surfaces):
    table = surfaces.main(["--vertices", "150", *SMALL_SURFACES]).set_index("what")["value"]
    assert table["distance, beside potpourri3d"] < 1e-3
    assert table["distance, beside the great circle"] < 0.05
    assert table["signature, 16 probes, beside its exact columns"] < 0.6  # sqrt(2 / 16) = 0.35
    assert table["signature, beside the dense exponential"] < 1e-5
    assert table[table.index.str.startswith("parts")].between(0, 1).all()


def test_surfaces_of_ones_own(surfaces, tmp_path):
    rng = np.random.default_rng(0)
    for name in "abcde":
        surface, _ = surfaces.body(90, rng)
        surfaces.trimesh.Trimesh(surface.points, surface.faces).export(tmp_path / f"{name}.off")
        np.savetxt(tmp_path / f"{name}.vts", np.arange(1, 91), fmt="%d")
    table = surfaces.main([str(tmp_path), "--regions", "3", *SMALL_SURFACES])
    assert table["value"].between(0, 1).all()
    table = surfaces.main([str(tmp_path / "a.off")])
    assert table["value"][0] < 1e-3
    with pytest.raises(SystemExit, match=r"at least 5 files \.off beside \.vts"):
        surfaces.main([str(tmp_path / "..")])


def test_surfaces_that_are_thin_open_or_in_parts(surfaces):
    points, faces = surfaces.sphere(300)
    pair = np.concatenate([points, points + 3]), np.concatenate([faces, faces + 300])
    both = surfaces.Surface.of(*pair)
    found = surfaces.distances(both, np.array([0, 300]))
    assert np.isfinite(found[:300, 0]).all()
    assert np.isinf(found[300:, 0]).all()
    np.testing.assert_allclose(found[:300, 0], found[300:, 1], atol=1e-6)
    # A strip, with triangles of angles below a degree: the distance is the difference of x.
    x, y = np.meshgrid(np.linspace(0, 2, 60), np.linspace(0, 0.5, 300), indexing="ij")
    points = np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], 1)
    faces = Delaunay(points[:, :2] * [0.02, 1]).simplices
    strip = surfaces.Surface.of(points, faces)
    found = surfaces.distances(strip, np.array([150]), 4.0)[:, 0]
    wanted = np.linalg.norm(strip.points - strip.points[150], axis=1)
    assert np.abs(found - wanted).mean() < 0.03 * wanted.mean()
    with pytest.raises(ValueError, match="'edge_weight' to be non-negative, .* .got 1 negative"):
        surfaces.check_weights(torch.tensor([1.0, -0.1]))


def test_gradients_along_a_surface_turn_with_it(surfaces):
    """Scores do not depend on where a body is, and do on which side is outside."""
    points, faces = surfaces.sphere(80)
    points = points * [1.0, 0.8, 0.6] + 0.2 * points[:, [1, 2, 0]] ** 2
    x = torch.from_numpy(points).float()
    turn = surfaces.Rotation.from_euler("xyz", [0.3, 0.5, 0.7]).as_matrix()
    torch.manual_seed(0)
    model = surfaces.SurfaceNet(3, 2)
    with torch.no_grad():
        here, there, mirrored = (
            model(x, surfaces.Surface.of(each, order))
            for each, order in (
                (points, faces),
                (points @ turn.T, faces),
                (points * [-1, 1, 1], faces[:, ::-1]),
            )
        )
    torch.testing.assert_close(there, here, atol=1e-4, rtol=1e-3)
    assert (mirrored - here).abs().max() > 1e-2 * here.abs().max()


def test_the_benchmark_of_surfaces(tmp_path, monkeypatch):
    benchmark = load(ROOT / "examples/benchmarks/surfaces.py", monkeypatch)
    quick = ["--vertices", "200", "--eigenvectors", "20", "--output", str(tmp_path)]
    table = benchmark.main(quick)
    assert set(table["mesh"]) == {"sphere 200", "body 200"}
    assert table.loc[table["way"] == "ours", "beside potpourri3d"].max() < 1e-3
    assert table.loc[table["way"] == "ours", "beside the truth"].max() < 0.3
    assert "| 20 eigenvectors | " in (tmp_path / "surfaces.md").read_text()
    monkeypatch.setattr(benchmark, "measure", None)  # what is in the table is not measured again
    assert len(benchmark.main(quick)) == len(table)
