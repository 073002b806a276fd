"""Everything that is shown runs: each example with small settings, and the README's code."""

import importlib.util
import json
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from scipy.io import savemat
from torch_geometric.data import Data

from jsem_pyg.datasets import embed_texts

pytestmark = pytest.mark.ci

ROOT = Path(__file__).parent.parent


def load(path, monkeypatch):
    """Import a script of the examples, with its folder on the path."""
    path = ROOT / "examples" / f"{path}.py"
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.syspath_prepend(path.parent)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)  # where processes look for it
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Maps by principal axes, since UMAP compiles for a while; threads as they were."""
    threads = torch.get_num_threads()
    module = importlib.import_module("jsem_pyg.report.report")
    monkeypatch.setattr(module, "choose_layout", lambda *given: "pca")
    yield
    torch.set_num_threads(threads)


class Run(NamedTuple):
    """A call of an example's `main`, and what has to hold of its result."""

    script: str
    options: str  # {data} is a folder with small files; --output is added
    good: Callable[[Any], Any] = lambda result: True
    says: str = ""  # on the page that it writes
    patches: Mapping[str, Any] = MappingProxyType({})
    once: str = ""  # what must not run again where the results are there
    slow: bool = False
    needs: tuple[str, ...] = ()


def absent(name):
    """For `find_spec`: nothing optional is installed, and none of it takes seconds to load."""


def by_way(table, way, column):
    """A column of a table, by the names in another."""
    return table.set_index(way)[column]


EMBEDDED = "{data}/20newsgroups_train_minilm.npz"

# Benchmarks have to run and to write what they find; examples have to find what their pages say.
BENCHMARKS = [
    Run(
        "training_epoch",
        "--num-points 60 --channels 5 --k 4 --degree 6 --repeats 1",
        says="| torch, K = 6 |",
        patches={"find_spec": absent},
    ),
    Run(
        "out_of_core",
        "--nodes 80 --channels 20 --compare 5 --memory 64GB --scratch {data}",
        slow=True,
    ),
    Run(
        "ordering",
        "--num-nodes 300 --neighbours 5 --channels 4 --degree 3 --repeats 1",
        patches={"ROWS_OF_A_BLOCK": 50, "LINES": 64},
    ),
    Run("small_graphs", "--repeats 1 --batches 1"),
    Run(
        "filters",
        "--num-points 60 --channels 4 --k 5 --repeats 1",
        lambda table: table["relative difference"].dropna() < 2e-6,
    ),
    Run("report", "--num-points 300 --channels 8 --layout pca", slow=True),  # begins a browser
    Run(
        "sizes",
        "--channels 5 --degree 3 --repeats 1 --stream-size 1000 --nodes 60 40",
        says="an epoch grows as edges^",
        once="measure",
    ),
    Run(
        "memory",
        "--only 1d --scale 0.01 --scratch {data}",
        says="with 0.01 times as many nodes as they say: that tries no promise",
        once="watch",
        slow=True,
    ),
    Run("gpu_epoch", "--rehearse", slow=True),  # Triton's interpreter
    Run(
        "curvature",
        "--num-points 80 --channels 8 --k 6 --repeats 1",
        patches={"SIZES": [60, 120]},
        needs=("GraphRicciCurvature",),
        slow=True,
    ),
    Run(
        "pruning",
        f"--sizes 200 --k 6 --epochs 12 --seeds 2 --threshold 0.3 --embeddings {EMBEDDED}",
        lambda table: table["moved"] < 1,
    ),
    Run(
        "self_training",
        "--nodes 300 --classes 3 --channels 8 --k 6",
        lambda table: table["ARI"] > 0.8,
        slow=True,
    ),
    Run("relational", "accuracy --quick --kinds RGCNConv HeteroChebConv"),
    Run("relational", "precompute --quick"),
    Run("relational", "layer --quick"),
    Run(
        "neighbours",
        "--features 8 --k 4",
        lambda table: table.loc[table["way"] == "flat", ["recall", "flat / this"]] == 1,
        patches={"SIZES": [500, 900]},
    ),
    Run("levels", "--quick", once="measure", slow=True),
    Run("bertopic_topics", "--quick", says="| quick |", slow=True, needs=("bertopic",)),
    Run("choosing", "--times 0 5 --k 5 30 --seeds 1", slow=True),
    Run(
        "alignment",
        "--one-process --repeats 1 --splits 1 --peer-points 10 --sizes 300x350 --points 200 "
        "--ways Geo gromov POT torchgw",
        lambda table: float(table.set_index("way")["P@1"]["gromov_wasserstein"]) > 0.9,
        slow=True,
    ),
    Run("graph_matching", "--sizes 60 --seeds 1"),
    Run(
        "alignment_confidence",
        "--seeds 1 --nodes 30 31",
        lambda rows: rows.loc[rows["case"].str.contains("unrelated"), "right"].eq(0),
        says="| curve |",
        patches={"GRAPHS": ("random",), "LEVELS": (10,), "POINTS": ("curve",)},
    ),
    Run(
        "hypergraph",
        "--tokens 6 --experts 4 --channels 3 --many-experts 5 --many-tokens 2 --repeats 1 "
        "--devices cpu",
    ),
    Run(
        "distributed",
        "--num-nodes 2000 --time-nodes 1000 --channels 4 --terms 5 --repeats 1 --processes",
        slow=True,
    ),
    Run(
        "poisoned_edges",
        "--quick --seeds 1",
        lambda runs: runs["accuracy: heat, conductance"] > runs["accuracy: GCN"],
        says="| digits, heat, pruned |",
        patches={"CASES": [("none", 0.0), ("attack", 0.5)]},
        once="run",
    ),
    Run("words", "--quick", once="run"),
    Run(
        "barriers",
        "--only river --draws 1 --nodes 120",
        lambda table: (
            by_way(table, "method", "RMSE")["learned conductance"]
            < by_way(table, "method", "RMSE")["every edge alike"]
        ),
        says="| river | learned conductance | ",
    ),
    Run(
        "ordinary",
        "--draws 1 --scale 0.25 --only clusters",
        lambda table: table.loc[table["family"].str.contains(", 2 |, 10 "), "alike"] == "1 of 1",
        says="| one cluster |",
    ),
    Run(
        "sketch",
        "--quick --seeds 1 --methods sketch_nodes fastrp",
        lambda table: float(by_way(table, "method", "accuracy")["sketch_nodes"].split()[0]) > 80,
        says="| planted | sketch_nodes | ",
    ),
    Run(
        "surfaces",
        "--vertices 200 --eigenvectors 20",
        lambda table: table.loc[table["way"] == "ours", "beside the truth"].max() < 0.3,
        says="| 20 eigenvectors | ",
        once="measure",
    ),
]
RUNS = [
    *(each._replace(script=f"benchmarks/{each.script}") for each in BENCHMARKS),
    Run(
        "learn_diffusion",
        "--epochs 3 --seeds 2 --dataset {data}/points.npy --clusters 3 --conductance mlp",
        lambda table: list(table.filter(like="_mean")) == ["t_mean", "energy_mean"],
    ),
    Run(
        "jax_conductance",
        "--points 300 --labels 3 --seeds 1 --steps 30",
        lambda table: (
            table["accuracy", "mean"].iloc[1:].min() > table["accuracy", "mean"].iloc[0] > 0.5
        ),
        slow=True,
        needs=("jax.numpy", "optax"),
    ),
    Run(
        "align_embeddings",
        "--points 120 --splits 1",
        lambda rows: rows.loc[rows["starts"] == "all starts", ["P@1", "label transfer"]] > 0.9,
    ),
    Run("align_embeddings", "--dataset {data}/equal.npy --splits 1"),
    Run("align_cells", "--cells 150 --seeds 2"),
    Run(
        "unseen_documents",
        f"--epochs 2 --seeds 2 --k 6 --embeddings {EMBEDDED}",
        lambda table: table.index.tolist() == ["raw", "extended", "refitted"],
    ),
    Run("columns_of_tables", "{data}"),
    Run(
        "without_graph",
        "--seeds 1 --repeats 1 --epochs 20",
        lambda table: [
            table["accuracy", "mean"]["joined to the graph"]
            > table["accuracy", "mean"]["labels alone"]
            > 0.85,
            table["accuracy", "mean"]["distilled into an MLP"] > 0.85,
        ],
    ),
    Run(
        "surfaces",
        "--vertices 150 --meshes 5 --epochs 1",
        lambda table: table["share right"].between(0, 1),
    ),
    Run(
        "benchmarks/estimators",
        "--points 300 --seeds 1 --labels 3",
        lambda tables: [
            by_way(tables["clusters"], "clusters of", "ARI")[f"heat, {each}"]
            > by_way(tables["clusters"], "clusters of", "ARI")[each]
            for each in ("KMeans", "HDBSCAN")
        ],
        patches={"find_spec": absent},  # UMAP takes long to load
    ),
    Run(
        "expert_coupling",
        "--experts 4 --channels 8 --hyperedges 3 --epochs 6 --lr 0.02 --seeds 1",
        lambda table: table["accuracy"] > 0.8,
    ),
    Run(
        "benchmarks/semi_supervised",
        "--quick --models GCN 'anisotropic heat'",
        lambda table: table.loc[table["model"] == "anisotropic heat", "mean"] > 45,  # chance: 25
        says="| synthetic | plain | GCN |",
    ),
    Run(
        "benchmarks/drop_in",
        "--quick --split random --script gcn link_pred autoencoder --conv gcn ours_curvature",
    ),
    Run("benchmarks/heterophilous", "--quick", once="run", slow=True),
    Run("benchmarks/directed", "--quick", lambda table: table.notna(), once="run", slow=True),
    Run(
        "benchmarks/denoising",
        "--quick --methods noisy heat learned",
        lambda runs: [
            each.loc[each["method"] != "noisy", "psnr"].min()
            > each.loc[each["method"] == "noisy", "psnr"].item() + 3
            for _, each in runs.groupby("picture")
        ],
        patches={"HEAT_TIMES": [0.5, 2.0]},
        once="Task.run",
    ),
    Run(
        "hetero_labels",
        "",
        lambda table: [
            by_way(table, "way", "Macro-F1")[learned] > by_way(table, "way", "Macro-F1")[alike] + 3
            for learned, alike in [
                ("learned", "all relations alike"),
                ("words, learned", "words, alike"),
            ]
        ],
    ),
    Run(
        "benchmarks/denoising_signals",
        "--quick",
        lambda runs: [
            float(each["learned"]) < 0.5 * float(each["noisy"])
            for task, each in runs.pivot(index="task", columns="method", values="error").iterrows()
            if task.startswith("expression")
        ],
    ),
]


@pytest.fixture
def small_data(tmp_path):
    """A folder with texts in four classes, points without labels, and some that are the same."""
    folder = tmp_path / "data"
    folder.mkdir()
    rng, y = np.random.default_rng(0), np.arange(120) % 4
    x = rng.normal(size=(120, 12))
    np.save(folder / "points.npy", x[:60].astype("float32"))
    equal = np.concatenate([x**3, np.zeros((30, 12)) + np.arange(12) + 1])
    np.save(folder / "equal.npy", equal)
    texts = (x + 4 * np.eye(4, 12)[y]).astype("float16")
    names = np.array(["a", "b", "c", "d"])
    np.savez(folder / "20newsgroups_train_minilm.npz", x=texts, y=y, target_names=names)
    return folder


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(each, id=each.script, marks=[pytest.mark.slow] if each.slow else [])
        for each in RUNS
    ],
)
def test_an_example_with_small_settings(case, tmp_path, small_data, monkeypatch):
    for each in case.needs:
        pytest.importorskip(each)
    module, out = load(case.script, monkeypatch), tmp_path / "out"
    out.mkdir()
    for name, value in case.patches.items():
        monkeypatch.setattr(module, name, value)
    script = (ROOT / f"examples/{case.script}.py").read_text()
    writes = "--output" in script or "from reporting import" in script
    options = case.options + " --output {tmp}" * (writes and "--output" not in case.options)
    options = shlex.split(options.format(tmp=out, data=small_data))
    result = module.main(options)
    assert np.all(case.good(result))
    written = list(out.iterdir())
    assert all(path.stat().st_size > 0 for path in written if path.is_file())
    assert case.says in "".join(path.read_text() for path in written if path.suffix == ".md")
    if case.once:
        *path, name = case.once.split(".")
        monkeypatch.setattr(reduce(getattr, path, module), name, None)
        again, first = (each.reset_index(drop=True) for each in (module.main(options), result))
        pd.testing.assert_frame_equal(again, first, check_dtype=False)


def test_the_main_job_on_its_embedded_default(tmp_path, monkeypatch, capsys):
    learn_diffusion = load("learn_diffusion", monkeypatch)
    monkeypatch.setattr(learn_diffusion.outcome, "MAP_POINTS", 100)
    table = learn_diffusion.main(["--epochs=3", "--seeds=2", f"--output={tmp_path}"])
    raw, isotropic, opened, learned = ari = table["ari_mean"]
    assert 0.5 < raw < isotropic < min(opened, learned)
    assert abs(opened - learned) < 0.01  # the classifier does it
    assert f"{raw:.3f} ± {table['ari_std'][ari.index[0]]:.3f}" in capsys.readouterr().out
    for name in ("training.png", "curvature.png", "conductance.png", "map.png", "map.html"):
        assert (tmp_path / name).stat().st_size > 10_000
    with np.load(tmp_path / "embeddings.npz") as saved:
        assert saved["x"].shape == (1797, 10)
    written = pd.read_csv(tmp_path / "results.csv", index_col="representation")
    pd.testing.assert_frame_equal(written, table)
    assert (written["seeds"] == 2).all()


def test_the_benchmark_of_known_pairs(tmp_path, monkeypatch):
    benchmark = load("benchmarks/alignment_known", monkeypatch)
    draw = np.random.default_rng(0)
    ends = draw.integers(60, size=(250, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    np.savez(tmp_path / "in-arenas.npz", num_nodes=60, edges=ends)
    graphs = {"first": 60, "second": 62}
    matrices = {name: np.zeros((size, size)) for name, size in graphs.items()}
    for each in matrices.values():
        each[tuple(ends.T)] = 1
    counts = {f"{name}_node_feat": draw.random((size, 3)) for name, size in graphs.items()}
    counts["second_node_feat"][:60] = counts["first_node_feat"]
    known = np.zeros((62, 60))
    known[:5, :5] = np.eye(5)
    others = np.arange(5, 60)[:, None].repeat(2, 1) + 1
    savemat(tmp_path / "mine.mat", {**matrices, **counts, "H": known, "gnd": others})
    out = tmp_path / "out"
    options = ["--data", str(tmp_path), "--output", str(out), "--draws", "1", "--noise", "0"]
    options += ["--removed", "10", "--known", "0", "20", "--ways", "ours", "FAQ"]
    table = benchmark.main(options)
    assert table.groupby(["pair", "way"]).size().to_dict() == {
        ("in-arenas", "FAQ"): 1,
        ("in-arenas", "ours"): 2,
        ("mine", "FAQ"): 1,
        ("mine", "ours"): 3,
    }
    ours = table[table["way"] == "ours"].set_index(["pair", "known", "features"])["Hits@1"]
    assert float(ours["mine", 20, "0 % redrawn"]) > 0.95
    assert float(ours["in-arenas", 20, "none"].split()[0]) > 0.5
    monkeypatch.setattr(benchmark, "measure", None)  # nothing is left to run
    pd.testing.assert_frame_equal(benchmark.main(options), table)


@pytest.mark.slow
def test_the_benchmark_of_real_graphs(tmp_path, monkeypatch):
    benchmark = load("benchmarks/alignment_real", monkeypatch)
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
    both = {"edge_index1": graph.T, "edge_index2": graph.T}
    np.savez(tmp_path / "saved.npz", **both, test_pairs=np.arange(size)[:, None].repeat(2, 1))
    out = tmp_path / "out"
    options = ["--data", str(tmp_path), "--output", str(out), "--one-process", "--seeds", "1"]
    options += ["--graphs", "mine", "versions", "pair", "saved"]
    options += ["--ways", "ours", "FAQ (SciPy)", "FUGAL"]
    options += ["--kinds", "two-way", "real", "--noise", "10"]
    rows = benchmark.main(options)
    counts = {"FAQ (SciPy)": 4, "FUGAL": 0, "ours": 4}
    assert rows.groupby("way")["accuracy"].count().to_dict() == counts
    ours = rows[rows["way"] == "ours"].set_index("graph")
    assert (ours.loc[["pair", "saved"], ["twins", "overlap", "true overlap"]] == 1).all(axis=None)
    assert ours.loc["mine", "true overlap"] < 1 == ours.loc["versions", "true overlap"]
    assert "- FUGAL: no --peers (" in (out / "alignment_real.md").read_text()
    monkeypatch.setattr(benchmark, "measure", None)  # nothing is left to run
    pd.testing.assert_frame_equal(benchmark.main(options), rows)


def test_the_code_of_the_readme(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    namespace = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    assert namespace["out"].shape == (1797, 10)
    assert "ARI" in capsys.readouterr().out


def test_diffusion_on_processes_that_share_a_graph(tmp_path, monkeypatch, capsys):
    meeting = {"MASTER_ADDR": "localhost", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
    for name, value in meeting.items():
        monkeypatch.setenv(name, value)
    example = load("distributed_diffusion", monkeypatch)
    example.main(["--epochs", "2", "--output", str(tmp_path)])
    assert "DistributedGraph(rank=0 of 1, num_nodes=1797 of 1797" in capsys.readouterr().out
    assert np.load(tmp_path / "diffused.npy").shape == (1797, 64)


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


def test_learned_roads_are_better_than_roads_that_conduct_alike(monkeypatch, tmp_path):
    example = load("benchmarks/road_sensors", monkeypatch)
    for name in [name for name in example.METHODS if "heat" in name or "by hand" in name]:
        monkeypatch.delitem(example.METHODS, name)
    table = example.main(["--splits", "1", "--output", str(tmp_path)])["RMSE"]["mean"]
    learned = "kernels averaged, learned conductance"
    assert table[learned] < 0.5 * table["kernels averaged, every edge alike"]
    assert table[learned] < 0.5 * table["kriging on the map"]
    assert (tmp_path / "road_sensors.png").stat().st_size > 10_000
    assert len(pd.read_csv(tmp_path / "road_sensors.csv")) == len(example.METHODS)


def test_the_arms_of_the_horseshoe_touch_at_marked_edges_only(monkeypatch):
    example = load("benchmarks/barriers", monkeypatch)
    case = example.horseshoe(50, 0, (50, 20))
    source, target = case.graph.edge_index.numpy()
    step, marked = abs(case.truth[source] - case.truth[target]), case.graph.edge_attr[:, 0] > 0
    assert step[~marked].max() < 0.4
    assert step[marked].min() > 1.5
    assert marked.sum() == 2 * len(np.unique(case.pos[case.pos[:, 0] >= 0, 0]))


def test_a_made_up_brain_is_read_from_its_wiring(monkeypatch):
    example = load("benchmarks/brain_networks", monkeypatch)
    monkeypatch.setattr(example, "TIMES", [2.0])
    table = example.main(["--seeds", "1", "--epochs", "60"])
    alike, learned = (table[name].xs("mean").mean() for name in table)
    assert learned > alike + 0.02


@pytest.mark.slow
def test_a_convolution_learns_which_edges_to_trust(monkeypatch):
    example = load("benchmarks/edge_types", monkeypatch)
    monkeypatch.setattr(example, "GRAPHS", {"few": example.GRAPHS["two of four are noise"]})
    table = example.main(["--seeds", "1", "--epochs", "80", "--rates"])["few"]
    gcn, _, relations, ours = (float(each.split()[0]) for each in table)
    assert min(relations, ours) > gcn + 0.1


def test_directions_tell_classes_apart(monkeypatch):
    example = load("benchmarks/directed", monkeypatch)
    monkeypatch.setattr(example, "GRAPHS", {"few": ("order", 30)})
    table = example.main(["--seeds", "1"])["few"]
    without, copies, magnetic = (float(each.split()[0]) for each in table)
    assert without + 0.1 < copies < magnetic


def test_pygs_example_with_our_model(monkeypatch):
    example = load("pyg_gcn", monkeypatch)
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) // 20
    edges = torch.stack([torch.arange(59), torch.arange(1, 60)])
    data = Data(torch.eye(3)[y] + torch.randn(60, 3, generator=generator), y=y)
    data.edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    data.train_mask = torch.arange(60) % 3 == 0
    data.val_mask = data.test_mask = ~data.train_mask
    assert example.run(data, 3, example.parse_args(["--epochs", "60"])) > 0.8


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of transformers
def test_an_encoder_learns_the_clusters_of_its_documents(tmp_path, monkeypatch):
    pytest.importorskip("sentence_transformers")
    example = load("benchmarks/reteach_encoder", monkeypatch)
    texts, _, y = load("benchmarks/words", monkeypatch)._quick()
    pd.DataFrame({"text": texts, "topic": y}).to_csv(tmp_path / "texts.csv", index=False)
    encoder = tiny_encoder(tmp_path, sorted(set(" ".join(texts).split())))
    options = [str(tmp_path / "texts.csv"), "--classes", "3", "--labels", "topic"]
    options += ["--model", str(encoder), "--batch", "15", "--lr", "0.001"]

    whole = example.main([*options, "--output", str(tmp_path / "whole")])
    assert whole["round"].tolist() == [0, 1]
    assert whole["acc"].iloc[-1] > 0.9
    one = load_file(tmp_path / "whole/round_1/model.safetensors")
    before = load_file(encoder / "model.safetensors")
    assert any(not torch.equal(one[name], before[name]) for name in one)
    taught = embed_texts(texts[:2], tmp_path / "whole/round_1", progress=False)
    assert taught.shape == (2, 16)


def test_a_picture_of_ones_own_is_denoised(tmp_path, monkeypatch, capsys):
    from skimage import io

    example = load("benchmarks/denoising", monkeypatch)
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


def test_heat_on_surfaces(monkeypatch):
    pytest.importorskip("robust_laplacian")
    meshes = load("helpers/meshes", monkeypatch)
    surface, at = meshes.Surface.of(*meshes.sphere(150)), np.arange(0, 150, 3)
    found = meshes.distances(surface, np.array([0]))[:, 0]
    radius = np.linalg.norm(surface.points, axis=1).mean()
    circle = radius * np.arccos((surface.points @ surface.points[0] / radius**2).clip(-1, 1))
    assert np.abs(found - circle).mean() < 0.05 * circle.mean()
    exact = meshes.kernel_columns(surface, meshes.TIMES, at)
    by_probes = meshes.signatures(surface, probes=16)[:, at]
    assert np.sqrt(np.square(by_probes / exact - 1).mean()) < 0.6  # sqrt(2 / 16) = 0.35
    stiffness, mass = (
        torch.from_numpy(surface.matrices[0].toarray()),
        torch.from_numpy(surface.matrices[1]),
    )
    kernels = torch.matrix_exp(-meshes.TIMES[:, None, None] * stiffness / mass[:, None])
    wanted = (kernels / mass).diagonal(dim1=1, dim2=2)[:, at].numpy()
    np.testing.assert_allclose(exact, wanted, rtol=1e-5)
