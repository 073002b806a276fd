"""What do epochs save by dropping edges that stay closed, and what does it change?

The same model is trained from the same seeds by triplets that the graph alone tells, once with all
edges and once with `PruneEdges` for each --max-shares: the largest part of a node's degree that may
go at a step, 1 for no limit but its best edge. How well an edge conducts is learned from
overlap, cosine and the like, and from the curvature where it can be had for little.

Data are 20 Newsgroups, if --embeddings names them, and mixtures of ten Gaussians in four dimensions
that are seen through 64 noisy channels. The column "moved" is the distance between the diffused
features of the trained model on its pruned graph and on the whole one, over the norm of the signal;
ARI is of k-means on the features of that run. "epoch / all" compares passes forward and backward of
the trained model on its pruned graph and on the whole one, in turns; "fit s" is the whole training,
with looks at the edges and the preparation of new graphs.

    python examples/benchmarks/pruning.py --embeddings 20newsgroups_train_minilm.npz
    python examples/benchmarks/pruning.py --sizes 1000000 --epochs 20 --seeds 1
"""

import argparse
import copy
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from edge_geometry import with_geometry
from reporting import machine, write_table
from sklearn.neighbors import kneighbors_graph
from torch_geometric.data import Data

from jsem_pyg.evaluation import clustering_scores
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.training import FitResult, PruneEdges, fit
from jsem_pyg.transforms import EdgeGeometry, FaissKNNGraph, FormanCurvature

CHANNELS, CLASSES = 64, 10
REPEATS = 3
SCORED = 20_000  # at most so many points are clustered


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--embeddings", type=Path, help=".npz file of x [N, D] and y [N]")
    parser.add_argument("--sizes", type=int, nargs="*", default=[20_000], help="of the mixtures")
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--threshold", type=float, default=0.2)
    parser.add_argument("--every", type=int, default=2)
    parser.add_argument("--max-shares", type=float, nargs="+", default=[0.05, 1.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    return parser.parse_args(argv)


def texts(args: argparse.Namespace) -> Data:
    with np.load(args.embeddings, allow_pickle=False) as file:
        x, y = file["x"], file["y"]
    x = F.normalize(torch.from_numpy(x.astype("float32")))
    data = Data(x=x, y=torch.from_numpy(y.astype("int64")))
    return with_geometry(FormanCurvature()(FaissKNNGraph(args.k)(data)))


def mixture(num_nodes: int, k: int) -> Data:
    rng = np.random.default_rng(0)
    centres, y = 2 * rng.normal(size=(CLASSES, 4)), rng.integers(CLASSES, size=num_nodes)
    points = centres[y] + 0.5 * rng.normal(size=(num_nodes, 4))
    directed = kneighbors_graph(points, min(k, num_nodes - 1))
    edges = directed.maximum(directed.T).tocoo()
    edge_index = torch.from_numpy(np.stack([edges.row, edges.col])).long()
    x = (points @ rng.normal(size=(4, CHANNELS))).astype("float32")
    x += rng.standard_normal(x.shape, dtype="float32")
    data = Data(x=torch.from_numpy(x), y=torch.from_numpy(y), edge_index=edge_index)
    return EdgeGeometry(["jaccard", "diffusion_cosine"])(data)


def train(
    args: argparse.Namespace, data: Data, seed: int, pruning: list[PruneEdges]
) -> tuple[FitResult, float, list[int]]:
    """The result of a run, the seconds that it took, and the number of edges in each epoch."""
    num_edges: list[int] = []

    def count(end: Any) -> None:
        num_edges.append(end.input.edge_index.size(1))

    torch.manual_seed(seed)
    model = AnisotropicDiffusion(data.edge_attr.size(1), t=5.0, conductance="mlp")
    options = {"sketch_dim": CHANNELS if data.x.size(1) > CHANNELS else None, "seed": seed}
    began = time.perf_counter()
    result = fit(
        model,
        data,
        epochs=args.epochs,
        lr=args.lr,
        callbacks=[count, *pruning],
        progress=False,
        **options,
    )
    return result, time.perf_counter() - began, num_edges


def epoch_ratio(data: Data, result: FitResult) -> float:
    """How long an epoch takes on the edges that are left, over that on all edges."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    graphs = {True: data, False: result.pruned(data)}
    model, x = copy.deepcopy(result.model), data.x[:, :CHANNELS].contiguous()
    for turn in range(2 * REPEATS):
        graph = graphs[turn % 2 == 0]
        with torch.no_grad():  # which prepares the graph
            model(x, graph.edge_index, graph.get("edge_weight"), graph.edge_attr)
        began = time.perf_counter()
        out = model(x, graph.edge_index, graph.get("edge_weight"), graph.edge_attr)
        out.square().mean().backward()
        seconds[turn % 2 == 0].append(time.perf_counter() - began)
    return min(seconds[False]) / min(seconds[True])


@torch.no_grad()
def judge(data: Data, result: FitResult, seed: int) -> dict[str, float]:
    """Scores of a run on the edges that it ended with, and how far it is from all edges."""
    model, left = result.model, result.pruned(data)
    whole, part = (
        model(each.x, each.edge_index, each.get("edge_weight"), each.edge_attr)
        for each in (data, left)
    )
    sample = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))[:SCORED]
    scores = clustering_scores(part[sample], data.y[sample], seeds=[seed])
    return {
        "edges left": left.num_edges / data.num_edges,
        "val loss": result.history[-1].val_loss,
        "ARI": scores.ari,
        "moved": float((whole - part).norm() / data.x.norm()),
    }


def compare(args: argparse.Namespace, name: str, data: Data) -> tuple[list, list]:
    """A row for each way and seed, and one for each of its epochs."""
    rows, epochs = [], []
    ways = {"all edges": None} | {f"share {share:g}": share for share in args.max_shares}
    options = {"threshold": args.threshold, "every": args.every}
    train(argparse.Namespace(**{**vars(args), "epochs": 1}), data, 0, [])  # warm-up
    for seed in range(args.seeds):
        for way, share in ways.items():
            pruning = [] if share is None else [PruneEdges(**options, max_share=share)]
            result, seconds, num_edges = train(args, data, seed, pruning)
            case = {"data": name, "N": data.num_nodes, "way": way, "seed": seed}
            steps = sum(b < a for a, b in pairwise([*num_edges, result.pruned(data).num_edges]))
            each_epoch = result.to_pandas()["seconds"].to_numpy()
            times = {"fit s": seconds, "epoch / all": epoch_ratio(data, result)}
            rows.append(case | {"steps": steps} | times | judge(data, result, seed))
            print(", ".join(f"{key} = {value}" for key, value in rows[-1].items()), flush=True)
            for epoch, (each, left) in enumerate(zip(each_epoch, num_edges, strict=True), 1):
                row = {"epoch": epoch, "seconds": each, "edges left": left / data.num_edges}
                epochs.append(case | row)
    return rows, epochs


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over the seeds, with the spread of the score."""
    groups = runs.drop(columns="seed").groupby(["data", "N", "way"], sort=False)
    table = groups.mean()
    table.insert(table.columns.get_loc("ARI") + 1, "± ARI", groups["ARI"].std(ddof=0))
    return table.reset_index()


def draw(epochs: pd.DataFrame) -> plt.Figure:
    names = epochs[["data", "N"]].drop_duplicates().to_numpy().tolist()
    size = (4.5 * len(names), 5.5)
    figure, axes = plt.subplots(2, len(names), figsize=size, squeeze=False, layout="constrained")
    for (name, num_nodes), column in zip(names, axes.T, strict=True):
        rows = epochs[(epochs["data"] == name) & (epochs["N"] == num_nodes)]
        for way, own in rows.groupby("way", sort=False):
            mean = own.groupby("epoch")[["edges left", "seconds"]].median()
            column[0].plot(mean.index, 100 * mean["edges left"], label=way)
            column[1].plot(mean.index[1:], 1e3 * mean["seconds"].iloc[1:], label=way)
        column[0].set(title=f"{name}, {num_nodes:,} nodes", ylabel="edges left, per cent", ylim=0)
        column[1].set(xlabel="epoch", ylabel="milliseconds an epoch", ylim=0)
        column[0].legend()
    return figure


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    rows, epochs = [], []
    cases: list[tuple[str, Any]] = [("mixture", size) for size in args.sizes]
    if args.embeddings is not None:
        cases.insert(0, (args.embeddings.stem.split("_")[0], None))
    for name, size in cases:
        found = compare(args, name, texts(args) if size is None else mixture(size, args.k))
        rows += found[0]
        epochs += found[1]
    table, curves = summary(pd.DataFrame(rows)), pd.DataFrame(epochs)
    notes = [
        f"{machine()}, float32",
        f"threshold {args.threshold}, a look every {args.every} epochs, {args.epochs} epochs, "
        f"means over {args.seeds} seeds",
    ]
    write_table(table, args.output, "pruning", notes)
    curves.to_csv(args.output / "pruning_epochs.csv", index=False)
    figure = draw(curves)
    figure.savefig(args.output / "pruning.png", dpi=150)
    plt.close(figure)
    return table


if __name__ == "__main__":
    main()
