"""Learn how well the edges of a neighbour graph conduct, and see what that did.

Points -> k-nearest-neighbour graph -> curvature of every edge -> a diffusion whose edges learn how
well they conduct, without labels. Labels serve only to score the result at the end, and to say how
many clusters there are if --clusters does not.

By default a `DiffusionClassifier` trains itself: an edge conducts as far as its two ends agree.
With --conductance sigmoid or mlp, edges conduct as their curvature says, learned from triplets.

    python examples/learn_diffusion.py                                  # digits, no file needed
    python examples/learn_diffusion.py --dataset 20newsgroups --data DIR
    python examples/learn_diffusion.py --dataset embeddings.npz         # or .npy, .csv, .txt

Prints a table, and writes it with figures and the diffused embeddings to the folder --output.
"""

import argparse
import logging
import os
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from sklearn.manifold import TSNE
from torch_geometric import seed_everything
from torch_geometric.data import Data

from jsem_pyg.curvature import forman_curvature
from jsem_pyg.datasets import DigitsDataset, EmbeddingDataset, TwentyNewsgroups
from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.evaluation import clustering_scores, dirichlet_energy
from jsem_pyg.nn import AnisotropicDiffusion, DiffusionClassifier
from jsem_pyg.training import fit, select_time
from jsem_pyg.transforms import FaissKNNGraph, FormanCurvature

# Where --data is looked for if it is not given; otherwise 20 Newsgroups are downloaded.
DATA_FOLDERS = ("data", "../data", "../shared/data")
MAP_POINTS = 2000  # at most so many points in the 2-D map, which is the slowest picture

console = Console(width=max(100, Console().width))  # the table needs 90 columns


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", default="digits", help="digits, 20newsgroups or a file")
    parser.add_argument("--data", type=Path, help="folder that holds 20 Newsgroups")
    parser.add_argument("--output", type=Path, default=Path("output"))
    parser.add_argument("--k", type=int, default=15, help="neighbours of a point")
    parser.add_argument("--metric", choices=["cosine", "l2"], default="cosine")
    parser.add_argument("--curvature", choices=["augmented", "1d", "balanced"], default="augmented")
    forms = ["agreement", "sigmoid", "mlp"]
    parser.add_argument("--conductance", choices=forms, default="agreement")
    parser.add_argument("--clusters", type=int, help="number of clusters; of classes if omitted")
    parser.add_argument("--epochs", type=int, help="4 rounds of self-training, or 100 epochs")
    parser.add_argument("--lr", type=float, default=0.05, help="of training by triplets")
    sketch = "channels of training by triplets; 0 for all"
    parser.add_argument("--sketch-dim", type=int, default=64, help=sketch)
    parser.add_argument("--seeds", type=int, default=5, help="k-means runs behind every score")
    parser.add_argument("--seed", type=int, default=0, help="of the training")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--no-figures", action="store_true")
    return parser.parse_args(argv)


def load(args: argparse.Namespace) -> Data:
    """The points, with rows of length one, and their labels if they have any."""
    root = args.output / "datasets" / Path(args.dataset).name
    if args.dataset == "digits":
        dataset = DigitsDataset(root)
    elif args.dataset == "20newsgroups":
        dataset = load_20newsgroups(root, args.data)
    else:
        dataset = EmbeddingDataset(root, args.dataset)
    data = dataset[0]
    data.x = F.normalize(data.x)
    return data


def load_20newsgroups(root: Path, folder: Path | None) -> TwentyNewsgroups:
    """From ready embeddings if the folder has them, else from the texts."""
    folder = folder or next((Path(each) for each in DATA_FOLDERS if Path(each).is_dir()), None)
    if folder is None:
        return TwentyNewsgroups(root)
    if (folder / "20newsgroups_train_minilm.npz").is_file():
        return TwentyNewsgroups(root, embeddings=folder)
    return TwentyNewsgroups(root, data_home=folder / "scikit_learn_data")


class Learned(NamedTuple):
    """What training gives."""

    x: torch.Tensor  # [N, D]: class probabilities, or diffused features
    conductance: torch.Tensor  # [E]
    t: float
    history: pd.DataFrame


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    seed_everything(args.seed)
    args.output.mkdir(parents=True, exist_ok=True)

    data = load(args)
    data = FaissKNNGraph(args.k, args.metric)(data)
    data = FormanCurvature(args.curvature)(data)
    console.print(f"{args.dataset}: {data}")

    chosen = select_time(data)
    isotropic = heat_diffusion(data.x, data.edge_index, data.edge_weight, chosen.t)
    train = train_itself if args.conductance == "agreement" else train_by_triplets
    learned = train(args, data, chosen.t)

    representations = {
        "raw": data.x,
        f"isotropic heat, t = {chosen.t:g}": isotropic,
        f"learned, t = {learned.t:.3g}": learned.x,
    }
    clusters = num_clusters(args, data) if data.y is not None or args.clusters else None
    table = score(representations, data, clusters, args.seeds)
    show(table)
    table.to_csv(args.output / "results.csv")
    seconds = learned.history["seconds"]
    low, middle, high = learned.conductance.quantile(torch.tensor([0.05, 0.5, 0.95])).tolist()
    console.print(
        f"training: {len(seconds)} epochs, {seconds.median() * 1000:.0f} ms each (median)\n"
        f"conductance: median {middle:.3f}, 90 % of the edges in [{low:.3f}, {high:.3f}]"
    )
    save_embeddings(args.output / "embeddings.npz", learned.x, data)
    if not args.no_figures:
        draw(args, data, representations, learned)
    console.print(f"Written to {args.output}/")
    return table


def train_itself(args: argparse.Namespace, data: Data, t: float) -> Learned:
    """Clusters teach a classifier, whose probabilities diffuse and teach it anew."""
    model = DiffusionClassifier(data.x.size(1), num_clusters(args, data), t=t)
    result = fit(model, data, epochs=args.epochs, seed=args.seed, device=args.device)
    model.cpu()
    graph = data.x, data.edge_index, data.edge_weight
    with torch.no_grad():
        p, conductance = model(*graph), model.conductances(*graph)
    return Learned(p, conductance, model.t.item(), result.to_pandas())


def train_by_triplets(args: argparse.Namespace, data: Data, t: float) -> Learned:
    """Neighbours are to be alike and strangers not, by what curvature says of the edges."""
    model = AnisotropicDiffusion(t=t, conductance=args.conductance)
    sketch_dim = args.sketch_dim if 0 < args.sketch_dim < data.x.size(1) else None
    options = {"epochs": args.epochs, "seed": args.seed, "device": args.device}
    result = fit(model, data, lr=args.lr, sketch_dim=sketch_dim, **options)
    model.cpu()
    with torch.no_grad():
        z = model(data.x, data.edge_index, data.edge_weight, data.edge_attr)
        conductance = model.conductance(data.edge_attr)
    return Learned(z, conductance, model.t.item(), result.to_pandas())


def num_clusters(args: argparse.Namespace, data: Data) -> int:
    """As many as asked for, or as there are classes."""
    if args.clusters:
        return args.clusters
    if data.y is None:
        raise SystemExit("These points have no labels. To fix this, say how many --clusters.")
    return int(data.y.unique().numel())


def score(
    representations: dict[str, torch.Tensor], data: Data, clusters: int | None, seeds: int
) -> pd.DataFrame:
    """A row for each representation: clustering scores where there are labels, and roughness."""
    rows: dict[str, dict[str, str]] = {}
    for name, x in representations.items():
        rows[name] = {}
        if data.y is not None:
            scores = clustering_scores(x, data.y, clusters, seeds=seeds)
            rows[name] = {
                "ARI": f"{scores.ari:.3f} ± {scores.ari_std:.3f}",
                "NMI": f"{scores.nmi:.3f} ± {scores.nmi_std:.3f}",
                "ACC": f"{scores.acc:.3f} ± {scores.acc_std:.3f}",
            }
        # How rough the representation is on the graph: Dirichlet energy, between 0 and 2.
        energy = dirichlet_energy(x, data.edge_index, data.edge_weight, relative=True)
        rows[name]["energy"] = f"{float(energy):.3f}"
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("representation")


def show(table: pd.DataFrame) -> None:
    rich_table = Table(title="k-means, mean ± spread over seeds")
    for column in (table.index.name, *table.columns):
        rich_table.add_column(column, no_wrap=True)
    for name, row in table.iterrows():
        rich_table.add_row(str(name), *row)
    console.print(rich_table)


def save_embeddings(path: Path, x: torch.Tensor, data: Data) -> None:
    """Write the diffused embeddings whole: to a temporary file that then takes the name."""
    arrays = {"x": x.numpy()} if data.y is None else {"x": x.numpy(), "y": data.y.numpy()}
    temporary = path.with_name(f".{path.name}")
    with temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    os.replace(temporary, path)


def draw(
    args: argparse.Namespace,
    data: Data,
    representations: dict[str, torch.Tensor],
    learned: Learned,
) -> None:
    edge_weight = data.edge_weight
    curvature = forman_curvature(
        data.edge_index, edge_weight, data.num_nodes, method=args.curvature
    )
    figures = {
        "training.png": draw_training(learned.history),
        "curvature.png": draw_curvature(curvature, data),
        "conductance.png": draw_conductance(learned.conductance, data),
        "map.png": draw_map(representations, data),
    }
    for name, figure in figures.items():
        figure.savefig(args.output / name, dpi=150)
        plt.close(figure)


def draw_training(history: pd.DataFrame) -> plt.Figure:
    figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
    axis.plot(history.index, history["loss"], marker=".", alpha=0.5, label="what it learns from")
    axis.plot(history.index, history["val_loss"], marker=".", label="held out")
    axis.set(title="Training without labels", xlabel="epoch", ylabel="loss")
    axis.legend()
    return figure


def draw_curvature(curvature: torch.Tensor, data: Data) -> plt.Figure:
    figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
    once = data.edge_index[0] < data.edge_index[1]  # each edge has two directions
    values = curvature[once].numpy()
    histogram(axis, values, np.linspace(*np.quantile(values, [0.002, 0.998]), 60), data)
    axis.set(
        title=f"Forman-Ricci curvature: median {np.median(values):.1f}, "
        f"standard deviation {values.std():.1f}",
        xlabel="curvature",
    )
    return figure


def draw_conductance(conductance: torch.Tensor, data: Data) -> plt.Figure:
    figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
    once = data.edge_index[0] < data.edge_index[1]
    histogram(axis, conductance[once].numpy(), np.linspace(0, 1, 41), data)
    axis.set(title="Learned conductance", xlabel="conductance", yscale="log")
    return figure


def histogram(axis: plt.Axes, values: np.ndarray, bins: np.ndarray, data: Data) -> None:
    """Numbers of edges, those inside a class and between two apart where classes are known."""
    axis.set(ylabel="edges")
    if data.y is None:
        axis.hist(values, bins)
        return
    source, target = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    same = (data.y[source] == data.y[target]).numpy()
    axis.hist([values[same], values[~same]], bins, label=["inside", "between"])
    axis.legend(title="edges in and between classes")


def draw_map(representations: dict[str, torch.Tensor], data: Data) -> plt.Figure:
    names = list(representations)
    shown = {names[0]: representations[names[0]], names[-1]: representations[names[-1]]}
    figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
    generator = torch.Generator().manual_seed(0)
    sample = torch.randperm(data.num_nodes, generator=generator)[:MAP_POINTS]
    colours = None if data.y is None else data.y[sample].numpy()
    for axis, (name, x) in zip(axes, shown.items(), strict=True):
        points = F.normalize(x[sample]).numpy()
        perplexity = min(30.0, (len(points) - 1) / 3)
        tsne = TSNE(perplexity=perplexity, init="pca", max_iter=500, random_state=0)
        flat = tsne.fit_transform(points)
        axis.scatter(*flat.T, c=colours, cmap="tab20", s=4)
        axis.set(title=name, xticks=[], yticks=[])
    figure.suptitle("t-SNE of the points, coloured by class")
    return figure


if __name__ == "__main__":
    main()
