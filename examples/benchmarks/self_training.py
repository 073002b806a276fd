"""How long does self-training take on a large graph, and how much memory?

Data are a planted mixture: Gaussians in four dimensions, of which the graph has the nearest
neighbours, and the features are many noisy mixtures. `fit` trains a `DiffusionClassifier` without
labels in a process of its own. Seconds of the parts are those of a profile, what the part calls
included; memory is the most that was resident in the whole process, with libraries and graph.
ARI is against the planted classes, and so is that of k-means on the features as they are. Making
the graph is timed apart. On a machine that is not idle, read the seconds of the processor.

    python examples/benchmarks/self_training.py                                  # 20,000 nodes
    python examples/benchmarks/self_training.py --nodes 1000000
"""

import argparse
import cProfile
import pstats
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from reporting import isolated, machine, parser_of, write_table
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph
from torch_geometric.data import Data

from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.training import fit

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
    parser = parser_of(__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[20_000])
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
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


def measure(num_nodes: int, args: argparse.Namespace) -> dict[str, float]:
    began = time.perf_counter()
    data = mixture(num_nodes, args)
    row = {"N": num_nodes, "edges": data.num_edges, "graph s": time.perf_counter() - began}
    raw = KMeans(args.classes, n_init=1, random_state=args.seed).fit_predict(data.x.numpy())
    row["ARI, raw"] = adjusted_rand_score(data.y.numpy(), raw)
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "graph.pt"
        torch.save(data, graph)
        del data
        row |= isolated(train, graph, args.classes, args.seed)
    print(row, flush=True)
    return row


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    table = pd.DataFrame([measure(size, args) for size in args.nodes])
    notes = [f"{machine()}, float32", f"{args.channels} channels, {args.classes} classes"]
    write_table(table, args.output, "self_training", notes)
    return table


if __name__ == "__main__":
    main()
