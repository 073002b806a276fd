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

import pandas as pd
import torch
import torch.nn.functional as F
from helpers.points import load_points, parser_of
from torch import Tensor
from torch_geometric.data import Data

from jsem_pyg.neighbors import NeighborIndex
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.training import fit, select_time
from jsem_pyg.transforms import FaissKNNGraph, FormanCurvature


@torch.no_grad()
def diffuse(model: AnisotropicDiffusion, graph: Data) -> Tensor:
    """The diffused features of all nodes, with the curvature that this graph has."""
    data = FormanCurvature()(graph)
    return model(data.x, data.edge_index, data.edge_weight, data.edge_attr)


def edge_overlap(extended: Data, refitted: Data) -> dict[str, float]:
    """Of the edges at new nodes: which share of one graph's the other graph has."""
    is_new, keys = extended.is_new, []
    for graph in (extended, refitted):
        source, target = graph.edge_index[:, is_new[graph.edge_index[0]]]
        keys.append(source * graph.num_nodes + target)
    ours, theirs = keys
    to_old = theirs[~is_new[theirs % len(is_new)]]
    return {
        "refitted edges kept": float(torch.isin(theirs, ours).double().mean()),
        "of those to fitted points": float(torch.isin(to_old, ours).double().mean()),
        "extended edges confirmed": float(torch.isin(ours, theirs).double().mean()),
    }


def neighbor_scores(z: Tensor, y: Tensor, is_new: Tensor, k: int) -> dict[str, float]:
    """Purity and accuracy of the k nearest fitted points of the new ones, by cosine."""
    neighbor, _ = NeighborIndex(z[~is_new], k, connect=False).query(z[is_new])
    label = y[~is_new][neighbor]
    votes = F.one_hot(label, int(y.max()) + 1).sum(1)
    return {
        "purity": float((label == y[is_new][:, None]).double().mean()),
        "accuracy": float((votes.argmax(1) == y[is_new]).double().mean()),
    }


def compare(x: Tensor, y: Tensor, args: argparse.Namespace, seed: int) -> list[dict]:
    """A row for each way, of one split."""
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    x, y, first = x[order], y[order], len(x) - round(0.2 * len(x))
    index = NeighborIndex(x[:first], args.k)
    old = Data(x=x[:first], edge_index=index.edge_index, edge_weight=index.edge_weight)
    old = FormanCurvature()(old)
    model = AnisotropicDiffusion(t=select_time(old).t)
    sketch_dim = 64 if x.size(1) > 64 else None
    options = {"epochs": args.epochs, "sketch_dim": sketch_dim, "progress": False}
    fit(model, old, lr=0.05, seed=seed, **options)

    edge_index, edge_weight = index.extend(x[first:])
    extended = Data(x=x, edge_index=edge_index, edge_weight=edge_weight)
    extended.is_new = is_new = torch.arange(len(x)) >= first
    refitted = FaissKNNGraph(args.k)(Data(x=x))
    ways = {"raw": x, "extended": diffuse(model, extended), "refitted": diffuse(model, refitted)}
    rows = [{"way": way} | neighbor_scores(z, y, is_new, args.k) for way, z in ways.items()]
    alike = F.cosine_similarity(ways["extended"][is_new], ways["refitted"][is_new])
    rows[1] |= edge_overlap(extended, refitted)
    rows[1] |= {"cosine to refitted": float(alike.mean()), "lowest": float(alike.min())}
    return rows


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = parser_of(__doc__)
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--epochs", type=int, default=30)
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    x, y = load_points(args.embeddings)
    rows = pd.DataFrame([row for seed in range(args.seeds) for row in compare(x, y, args, seed)])
    table = rows.groupby("way", sort=False).agg(["mean", "std"])
    print(f"{len(x)} points, a fifth of them new, k = {args.k}, {args.seeds} seeds\n")
    print(table.T.unstack().round(4).to_string())
    return table


if __name__ == "__main__":
    main()
