"""How long does self-training take on a large graph, and how much memory?

Data are a planted mixture: Gaussians in four dimensions, of which the graph has the nearest
neighbours, and the features are many noisy mixtures. `fit` trains a `DiffusionClassifier` without
labels, each time in a process of its own: once by the code that lies here and once by that of an
earlier commit (--before), which git has. Seconds of the parts are those of a profile, what the part
calls included; memory is the most that was resident in the whole process, with libraries and graph.
ARI is against the planted classes, and so is that of k-means on the features as they are. Making
the graph is timed apart. On a machine that is not idle, read the seconds of the processor.

    python examples/benchmarks/self_training.py                                  # 20,000 nodes
    python examples/benchmarks/self_training.py --nodes 1000000 --before ''      # no other commit
"""

import argparse
import cProfile
import io
import json
import os
import pstats
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from reporting import machine, write_table
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph
from torch_geometric.data import Data

from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.training import fit

ROOT = Path(__file__).resolve().parents[2]
BEFORE = "eb0ebbd"  # k-means on all points for every time, and a pair of rows for every edge
LATENT, SPREAD, NOISE = 4, 0.5, 2.0

# The folder and the functions in it whose seconds a part is made of.
PARTS = {
    "sorting": ("training", {"structure"}),
    "heat": ("training", {"diffused_rows"}),
    "k-means": ("cluster", {"fit", "transform", "predict"}),
    "teaching": ("training", {"fit_classifier"}),
    "diffusing": ("nn", {"diffuse"}),
    "modularity": ("evaluation", {"modularity"}),
}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[20_000])
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--before", default=BEFORE, help="a commit; '' for none")
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)  # what the processes do
    return parser.parse_args(argv)


def mixture(num_nodes: int, args: argparse.Namespace) -> Data:
    rng = np.random.default_rng(args.seed)
    centres = 2 * rng.normal(size=(args.classes, LATENT))
    y = rng.integers(args.classes, size=num_nodes)
    points = centres[y] + SPREAD * rng.normal(size=(num_nodes, LATENT))
    near = kneighbors_graph(points, min(args.k, num_nodes - 1), mode="distance")
    edges = near.maximum(near.T).tocoo()
    weight = np.exp(-((edges.data / np.median(edges.data)) ** 2)).astype("float32")
    edge_index = torch.from_numpy(np.stack([edges.row, edges.col])).long()
    x = (points @ rng.normal(size=(LATENT, args.channels)) / LATENT**0.5).astype("float32")
    x += NOISE * rng.standard_normal(x.shape, dtype="float32")
    return Data(
        x=torch.from_numpy(x),
        y=torch.from_numpy(y),
        edge_index=edge_index,
        edge_weight=torch.from_numpy(weight),
    )


def train(path: Path, num_classes: int, seed: int) -> dict[str, float]:
    """Train on a graph that was saved, and measure it."""
    data = torch.load(path, weights_only=False)
    y = data.pop("y").numpy()
    torch.manual_seed(seed)
    model = DiffusionClassifier(data.x.size(1), num_classes)
    profile, wall, cpu = cProfile.Profile(), time.perf_counter(), time.process_time()
    profile.runcall(fit, model, data, seed=seed, progress=False)
    seconds = {"seconds": time.perf_counter() - wall, "cpu s": time.process_time() - cpu}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    with torch.no_grad():
        found = model(data.x, data.edge_index, data.get("edge_weight")).argmax(-1)
    ari = adjusted_rand_score(y, found.numpy())
    parts = {f"{name} s": spent for name, spent in seconds_of_parts(profile).items()}
    return seconds | parts | {"peak GB": peak, "t": model.t.item(), "ARI": ari}


def seconds_of_parts(profile: cProfile.Profile) -> dict[str, float]:
    """Seconds within each of `PARTS`."""
    spent = dict.fromkeys(PARTS, 0.0)
    for (file, _, function), (*_, cumulative, _) in pstats.Stats(profile).stats.items():
        for name, (folder, functions) in PARTS.items():
            if Path(file).parent.name == folder and function in functions:
                spent[name] += cumulative
    return spent


def unpack(commit: str, folder: Path) -> Path:
    """The package as it was at a commit, in a folder."""
    packed = subprocess.run(
        ["git", "archive", commit, "jsem_pyg"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout  # fmt: skip
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(folder, filter="data")
    return folder


def train_apart(code: Path, graph: Path, args: argparse.Namespace) -> dict[str, float]:
    """What `train` returns in a process that imports the package from the folder `code`."""
    options = ["--classes", str(args.classes), "--seed", str(args.seed)]
    ran = subprocess.run(
        [sys.executable, __file__, "--train", str(graph), *options],
        env=os.environ | {"PYTHONPATH": str(code)}, stdout=subprocess.PIPE, check=True, text=True,
    )  # fmt: skip
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def measure(num_nodes: int, ways: dict[str, Path], args: argparse.Namespace) -> list[dict]:
    began = time.perf_counter()
    data = mixture(num_nodes, args)
    graph_seconds = time.perf_counter() - began
    raw = KMeans(args.classes, n_init=1, random_state=args.seed).fit_predict(data.x.numpy())
    case = {"N": num_nodes, "edges": data.num_edges, "graph s": graph_seconds}
    case["ARI, raw"] = adjusted_rand_score(data.y.numpy(), raw)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "graph.pt"
        torch.save(data, graph)
        del data
        for way, code in ways.items():
            rows.append(case | {"way": way} | train_apart(code, graph, args))
            for clock in ("seconds", "cpu s"):
                rows[-1][f"{clock} / now"] = rows[-1][clock] / rows[0][clock]
            print(", ".join(f"{key} = {value}" for key, value in rows[-1].items()), flush=True)
    return rows


def main(argv: list[str] | None = None) -> pd.DataFrame | None:
    args = parse_args(argv)
    if args.train is not None:
        print(json.dumps(train(args.train, args.classes, args.seed)))
        return None
    with tempfile.TemporaryDirectory() as folder:
        ways = {"now": ROOT}
        if args.before:
            ways["before"] = unpack(args.before, Path(folder))
        rows = [row for size in args.nodes for row in measure(size, ways, args)]
    table = pd.DataFrame(rows)
    notes = [f"{machine()}, float32", f"{args.channels} channels, {args.classes} classes"]
    write_table(table, args.output, "self_training", notes)
    return table


if __name__ == "__main__":
    main()
