"""Learn how well the edges of a neighbour graph conduct, and see what that did.

Points -> k-nearest-neighbour graph -> curvature of every edge -> a diffusion whose edges learn how
well they conduct, without labels. Labels serve only to score the result, and to say how many
clusters there are if --clusters does not. By default a `DiffusionClassifier` trains itself: an edge
conducts as far as its two ends agree. With --conductance sigmoid or mlp, edges conduct as their
curvature says, learned from triplets. Beside either stands the same model, trained in the same way
with every edge open: what the conductance adds is the difference between these two rows.

    python examples/learn_diffusion.py                              # digits, no file needed
    python examples/learn_diffusion.py --dataset embeddings.npz     # or .npy, .csv, .txt

Prints a table, and writes it to the folder --output, with pictures, the diffused embeddings and
map.html, where a browser shows the points, their clusters and the edges that closed.
Every model is trained anew for each seed; pictures and embeddings are those of the first one.
"""

import argparse
import copy
import logging
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from helpers import outcome
from torch_geometric import seed_everything
from torch_geometric.data import Data

from jsem_pyg.datasets import DigitsDataset, EmbeddingDataset
from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import AnisotropicDiffusion, DiffusionClassifier
from jsem_pyg.training import fit, select_time
from jsem_pyg.transforms import FaissKNNGraph, FormanCurvature


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", default="digits", help="digits, or a file")
    parser.add_argument("--output", type=Path, default=Path("output"))
    parser.add_argument("--k", type=int, default=15, help="neighbours of a point")
    forms = ["agreement", "sigmoid", "mlp"]
    parser.add_argument("--conductance", choices=forms, default="agreement")
    parser.add_argument("--clusters", type=int, help="number of clusters; of classes if omitted")
    parser.add_argument("--epochs", type=int, help="4 rounds of self-training, or 100 epochs")
    parser.add_argument("--seeds", type=int, default=5, help="trainings behind every score")
    return parser.parse_args(argv)


class Open(torch.nn.Module):
    """Every edge conducts fully."""

    def forward(self, edge_attr: None, x_i: torch.Tensor, x_j: torch.Tensor) -> torch.Tensor:
        return x_i.new_ones(len(x_i))


class Run(NamedTuple):
    """The points as one run gives them; what training tells is missing where there was none."""

    x: torch.Tensor  # [N, D]: class probabilities, or diffused features
    t: float = 0.0
    conductance: torch.Tensor | None = None  # [E]
    history: pd.DataFrame | None = None


def train_itself(data: Data, t: float, clusters: int, is_open: bool, **options: int) -> Run:
    """Clusters teach a classifier, whose probabilities diffuse and teach it anew."""
    seed_everything(options["seed"])
    model = DiffusionClassifier(
        data.x.size(1), clusters, t=t, conductance=Open() if is_open else None
    )
    result = fit(model, data, **options)
    graph = data.x, data.edge_index, data.edge_weight
    with torch.no_grad():
        return Run(model(*graph), model.t.item(), model.conductances(*graph), result.to_pandas())


def train_by_triplets(data: Data, t: float, form: str, is_open: bool, **options: int) -> Run:
    """Neighbours are to be alike and strangers not; with every edge open, only time learns."""
    seed_everything(options["seed"])
    data = copy.copy(data)
    if is_open:
        data.edge_attr = None
    model = AnisotropicDiffusion(0 if is_open else data.num_edge_features, t=t, conductance=form)
    result = fit(model, data, sketch_dim=64 if data.x.size(1) > 64 else None, **options)
    with torch.no_grad():
        z = model(data.x, data.edge_index, data.edge_weight, data.edge_attr)
        h = torch.ones(data.num_edges) if is_open else model.conductance(data.edge_attr)
    return Run(z, model.t.item(), h, result.to_pandas())


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    args.output.mkdir(parents=True, exist_ok=True)
    root = args.output / "datasets" / Path(args.dataset).name
    is_digits = args.dataset == "digits"
    dataset = DigitsDataset(root) if is_digits else EmbeddingDataset(root, args.dataset)
    data = dataset[0]
    data.x = F.normalize(data.x)
    data = FormanCurvature()(FaissKNNGraph(args.k)(data))
    outcome.console.print(f"{args.dataset}: {data}")

    clusters = args.clusters or (None if data.y is None else int(data.y.unique().numel()))
    trains_itself = args.conductance == "agreement"
    if trains_itself and clusters is None:
        raise SystemExit("These points have no labels. To fix this, say how many --clusters.")
    t = select_time(data).t
    heat = heat_diffusion(data.x, data.edge_index, data.edge_weight, t)
    runs = {"raw": [Run(data.x)] * args.seeds, "isotropic heat": [Run(heat, t)] * args.seeds}
    train, how = (
        (train_itself, clusters) if trains_itself else (train_by_triplets, args.conductance)
    )
    kind = "classifier" if trains_itself else "triplets"
    for name, is_open in {"every edge open": True, "learned conductance": False}.items():
        options = [{"seed": seed, "epochs": args.epochs} for seed in range(args.seeds)]
        runs[f"{kind}, {name}"] = [train(data, t, how, is_open, **each) for each in options]
    table = outcome.score(runs, data, clusters)
    outcome.show(table)
    table.to_csv(args.output / "results.csv")

    learned = runs[table.index[-1]][0]
    shown = {name: each[0].x for name, each in runs.items()}
    if trains_itself:  # a run of two rounds is the beginning of one of four
        rounds = range(1, len(learned.history))
        found = [train_itself(data, learned.t, clusters, False, seed=0, epochs=r).x for r in rounds]
        found = [x.argmax(-1) for x in (*found, learned.x)]
        training = outcome.draw_rounds(data, found, clusters, shown)
    else:
        found = [outcome.k_means(learned.x, clusters or 1)]
        training = outcome.draw_losses(learned.history)
    figures = {"training.png": training, **outcome.draw(data, learned, shown, dataset.classes)}
    unit = "rounds" if trains_itself else "epochs"
    outcome.write(args.output, data, learned, figures, unit)
    title = f"{args.dataset}: {table.index[-1]}"
    outcome.write_map(args.output, data, found[-1], learned, table, dataset.classes, title)
    print(f"Written to {args.output}/")
    return table


if __name__ == "__main__":
    main()
