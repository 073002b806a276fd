"""What if documents come in after the graph was built and the diffusion trained?

For each seed four fifths of the points are fitted: neighbour graph, curvature, a diffusion trained
without labels. The rest arrives later and is treated in two ways by the same trained diffusion:
"extended", each new point joined to its nearest fitted ones, and "refitted", the graph built anew
on all points. Labels only score the result.

    python examples/unseen_documents.py                                # digits, no file needed
    python examples/unseen_documents.py --embeddings embeddings.npz    # with x [N, D] and y [N]

Of the new points the table says: which share of the edges that they have when refitted they have
when extended, and the reverse; how much alike the diffused features of both ways are (cosine);
which share of their k nearest fitted points, in the features of each way, has their class (purity);
and how often the majority of these does (accuracy).
"""

import argparse
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from jsem_pyg.datasets import DigitsDataset
from jsem_pyg.neighbors import NeighborIndex
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.training import fit, select_time
from jsem_pyg.transforms import FaissKNNGraph, FormanCurvature


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--embeddings", type=Path, help=".npz file of points x [N, D], labels y")
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--kernel", choices=["gaussian", "self_tuning"], default="gaussian")
    parser.add_argument("--share-new", type=float, default=0.2)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--sketch-dim", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3, help="splits and trainings")
    parser.add_argument("--output", type=Path, default=Path("output"))
    return parser.parse_args(argv)


def load(args: argparse.Namespace) -> Data:
    """The points, with rows of length one, and their labels."""
    if args.embeddings is None:
        data = DigitsDataset(args.output / "datasets" / "digits")[0]
        return Data(x=F.normalize(data.x), y=data.y)
    with np.load(args.embeddings, allow_pickle=False) as file:
        x, y = torch.from_numpy(file["x"]), torch.from_numpy(file["y"])
    return Data(x=F.normalize(x.float()), y=y.long())


def split(data: Data, share_new: float, seed: int) -> tuple[Data, Data]:
    """Fitted and new points, at random."""
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(seed))
    first = data.num_nodes - round(share_new * data.num_nodes)
    return tuple(Data(x=data.x[part], y=data.y[part]) for part in (order[:first], order[first:]))


def train(graph: Data, args: argparse.Namespace, seed: int) -> AnisotropicDiffusion:
    data = FormanCurvature()(graph)
    model = AnisotropicDiffusion(t=select_time(data).t)
    sketch_dim = args.sketch_dim if args.sketch_dim < data.x.size(1) else None
    fit(
        model,
        data,
        epochs=args.epochs,
        lr=args.lr,
        sketch_dim=sketch_dim,
        seed=seed,
        progress=False,
    )
    return model


@torch.no_grad()
def diffuse(model: AnisotropicDiffusion, graph: Data) -> Tensor:
    """The diffused features of all nodes, with the curvature that this graph has."""
    data = FormanCurvature()(graph)
    return model(data.x, data.edge_index, data.edge_weight, data.edge_attr)


def edge_overlap(extended: Data, refitted: Data) -> dict[str, float]:
    """Of the edges at new nodes: which share of one graph's the other graph has."""
    is_new = extended.is_new
    ours, theirs = edges_from(is_new, extended), edges_from(is_new, refitted)
    to_old = theirs[~is_new[theirs % is_new.numel()]]
    return {
        "refitted edges kept": share(theirs, ours),
        "of those to fitted points": share(to_old, ours),
        "extended edges confirmed": share(ours, theirs),
    }


def edges_from(chosen: Tensor, graph: Data) -> Tensor:
    """The edges that begin at the chosen nodes, each as one number."""
    source, target = graph.edge_index[:, chosen[graph.edge_index[0]]]
    return source * graph.num_nodes + target


def share(keys: Tensor, among: Tensor) -> float:
    return float(torch.isin(keys, among).double().mean())


def neighbor_scores(z: Tensor, y: Tensor, is_new: Tensor, k: int) -> dict[str, float]:
    """Purity and accuracy of the k nearest fitted points of the new ones, by cosine."""
    neighbor, _ = NeighborIndex(z[~is_new], k, connect=False).query(z[is_new])
    label = y[~is_new][neighbor]
    votes = F.one_hot(label, int(y.max()) + 1).sum(1)
    return {
        "purity": float((label == y[is_new][:, None]).double().mean()),
        "accuracy": float((votes.argmax(1) == y[is_new]).double().mean()),
    }


def compare(data: Data, args: argparse.Namespace, seed: int) -> list[dict]:
    """A row for each way, of one split."""
    old, new = split(data, args.share_new, seed)
    index = NeighborIndex(old.x, args.k, kernel=args.kernel)
    old.edge_index, old.edge_weight = index.edge_index, index.edge_weight
    model = train(old, args, seed)

    extended = Data(x=torch.cat([old.x, new.x]), y=torch.cat([old.y, new.y]))
    extended.edge_index, extended.edge_weight = index.extend(new.x)
    extended.is_new = torch.arange(extended.num_nodes) >= old.num_nodes
    refitted = FaissKNNGraph(args.k, kernel=args.kernel)(Data(x=extended.x, y=extended.y))
    features = {
        "raw": extended.x,
        "extended": diffuse(model, extended),
        "refitted": diffuse(model, refitted),
    }
    is_new = extended.is_new
    rows = [
        {"seed": seed, "way": way} | neighbor_scores(z, extended.y, is_new, args.k)
        for way, z in features.items()
    ]
    alike = F.cosine_similarity(features["extended"][is_new], features["refitted"][is_new])
    rows[1] |= edge_overlap(extended, refitted)
    rows[1] |= {"cosine to refitted": float(alike.mean()), "lowest": float(alike.min())}
    return rows


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean ± standard deviation over the seeds, a row for each way."""
    groups = rows.drop(columns="seed").groupby("way", sort=False)
    mean, spread = groups.mean(), groups.std()
    cells = {
        name: [
            "" if np.isnan(middle) else f"{middle:.4f} ± {around:.4f}"
            for middle, around in zip(mean[name], spread[name], strict=True)
        ]
        for name in mean
    }
    return pd.DataFrame(cells, index=mean.index)


def to_markdown(table: pd.DataFrame) -> str:
    lines = [f"| {table.index.name} | {' | '.join(table.columns)} |"]
    lines.append("| --- " * (1 + len(table.columns)) + "|")
    lines += [f"| {way} | {' | '.join(cells)} |" for way, cells in table.iterrows()]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    args.output.mkdir(parents=True, exist_ok=True)
    data = load(args)
    rows = pd.DataFrame([row for seed in range(args.seeds) for row in compare(data, args, seed)])
    rows.to_csv(args.output / "unseen_documents.csv", index=False)
    table = summarise(rows)
    name = "digits" if args.embeddings is None else args.embeddings.stem
    text = (
        f"{name}: {data.num_nodes} points, {args.share_new:.0%} of them new, k = {args.k}, "
        f"{args.kernel} weights, {args.epochs} epochs, mean ± standard deviation over "
        f"{args.seeds} seeds\n\n{to_markdown(table)}"
    )
    (args.output / "unseen_documents.md").write_text(text + "\n")
    print(text)
    return table


if __name__ == "__main__":
    main()
