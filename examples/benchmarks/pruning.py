"""What do epochs save by dropping edges that stay closed, and what does it change?

The same model is trained from the same seeds by triplets that the graph alone tells, in rounds of
--every epochs. After a round `prune_edges` drops what hardly conducts, for each --max-shares: the
largest part of a node's degree that may go at once, 1 for no limit but its best edge. Beside these
is the same training on all edges. How well an edge conducts is learned from overlap, cosine and the
like, and from the curvature where it can be had for little.

Data are 20 Newsgroups, if --embeddings names them, and mixtures of ten Gaussians in four dimensions
that are seen through 64 noisy channels. The column "moved" is the distance between the diffused
features of the trained model on its pruned graph and on the whole one, over the norm of the signal;
ARI is of k-means on the features of that run. "epoch / all" compares passes forward and backward of
the trained model on its pruned graph and on the whole one, in turns; "fit s" is the whole training
in processor seconds, with looks at the edges and the preparation of new graphs.

    python examples/benchmarks/pruning.py --embeddings 20newsgroups_train_minilm.npz
    python examples/benchmarks/pruning.py --sizes 1000000 --epochs 20 --seeds 1
"""

import argparse
import copy
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import pandas as pd
import torch
from helpers.points import load_points
from reporting import machine, parser_of, write_table
from sklearn.neighbors import kneighbors_graph
from study.edge_geometry import with_geometry
from torch_geometric.data import Data

from jsem_pyg.evaluation import clustering_scores
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.partition import prune_edges
from jsem_pyg.training import fit
from jsem_pyg.transforms import EdgeGeometry, FaissKNNGraph, FormanCurvature

CHANNELS, CLASSES = 64, 10
REPEATS = 3
SCORED = 20_000  # at most so many points are clustered


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--embeddings", type=Path, help=".npz file of x [N, D] and y [N]")
    parser.add_argument("--sizes", type=int, nargs="*", default=[20_000], help="of the mixtures")
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--threshold", type=float, default=0.2)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--max-shares", type=float, nargs="+", default=[0.05, 1.0])
    parser.add_argument("--seeds", type=int, default=3)
    return parser.parse_args(argv)


def texts(args: argparse.Namespace) -> Data:
    x, y = load_points(args.embeddings)
    return with_geometry(FormanCurvature()(FaissKNNGraph(args.k)(Data(x=x, y=y))))


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
    args: argparse.Namespace, data: Data, seed: int, max_share: float | None
) -> tuple[AnisotropicDiffusion, Data, float]:
    """The model, the graph that is left, and the seconds that it took."""
    torch.manual_seed(seed)
    model = AnisotropicDiffusion(data.edge_attr.size(1), t=5.0, conductance="mlp")
    options = {"sketch_dim": CHANNELS if data.x.size(1) > CHANNELS else None, "lr": args.lr}
    began = time.process_time()
    for done in range(0, args.epochs, args.every):
        epochs = min(args.every, args.epochs - done)
        fit(model, data, epochs=epochs, seed=1000 * seed + done, progress=False, **options)
        if max_share is not None:
            with torch.no_grad():
                conductance = model.conductance(data.edge_attr)
            data = prune_edges(data, conductance, args.threshold, max_share=max_share).data
    return model, data, time.process_time() - began


def epoch_ratio(model: AnisotropicDiffusion, data: Data, left: Data) -> float:
    """How long an epoch takes on the edges that are left, over that on all edges."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    graphs = {True: data, False: left}
    model, x = copy.deepcopy(model), data.x[:, :CHANNELS].contiguous()
    for turn in range(2 * REPEATS):
        graph = graphs[turn % 2 == 0]
        with torch.no_grad():  # which prepares the graph
            model(x, graph.edge_index, graph.get("edge_weight"), graph.edge_attr)
        began = time.process_time()
        out = model(x, graph.edge_index, graph.get("edge_weight"), graph.edge_attr)
        out.square().mean().backward()
        seconds[turn % 2 == 0].append(time.process_time() - began)
    return min(seconds[False]) / min(seconds[True])


@torch.no_grad()
def judge(model: AnisotropicDiffusion, data: Data, left: Data, seed: int) -> dict[str, float]:
    """Scores of a run on the edges that it ended with, and how far it is from all edges."""
    whole, part = (
        model(each.x, each.edge_index, each.get("edge_weight"), each.edge_attr)
        for each in (data, left)
    )
    sample = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))[:SCORED]
    scores = clustering_scores(part[sample], data.y[sample], seeds=[seed])
    return {
        "edges left": left.num_edges / data.num_edges,
        "ARI": scores.ari,
        "moved": float((whole - part).norm() / data.x.norm()),
    }


def compare(args: argparse.Namespace, name: str, data: Data) -> list[dict[str, Any]]:
    """A row for each way and seed."""
    rows = []
    ways = {"all edges": None} | {f"share {share:g}": share for share in args.max_shares}
    train(argparse.Namespace(**{**vars(args), "epochs": 1}), data, 0, None)  # warm-up
    for seed in range(args.seeds):
        for way, share in ways.items():
            model, left, seconds = train(args, data, seed, share)
            case = {"data": name, "N": data.num_nodes, "way": way, "seed": seed}
            times = {"fit s": seconds, "epoch / all": epoch_ratio(model, data, left)}
            rows.append(case | times | judge(model, data, left, seed))
            print(", ".join(f"{key} = {value}" for key, value in rows[-1].items()), flush=True)
    return rows


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over the seeds, with the spread of the score."""
    groups = runs.drop(columns="seed").groupby(["data", "N", "way"], sort=False)
    table = groups.mean()
    table.insert(table.columns.get_loc("ARI") + 1, "± ARI", groups["ARI"].std(ddof=0))
    return table.reset_index()


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    rows = []
    cases: list[tuple[str, Any]] = [("mixture", size) for size in args.sizes]
    if args.embeddings is not None:
        cases.insert(0, (args.embeddings.stem.split("_")[0], None))
    for name, size in cases:
        rows += compare(args, name, texts(args) if size is None else mixture(size, args.k))
    table = summary(pd.DataFrame(rows))
    notes = [
        f"{machine()}, float32",
        f"threshold {args.threshold}, {args.epochs} epochs in rounds of {args.every}, means over "
        f"{args.seeds} seeds",
    ]
    write_table(table, args.output, "pruning", notes)
    return table


if __name__ == "__main__":
    main()
