"""Learn how well the edges of a neighbour graph conduct, and see what that did.

Points -> k-nearest-neighbour graph -> curvature of every edge -> a diffusion whose edges learn how
well they conduct, without labels. Labels serve only to score the result at the end, and to say how
many clusters there are if --clusters does not.

By default a `DiffusionClassifier` trains itself: an edge conducts as far as its two ends agree.
With --conductance sigmoid or mlp, edges conduct as their curvature says, learned from triplets.
Beside either stands the same model, trained in the same way with every edge open: what the
conductance adds is the difference between these two rows, and not that to isotropic heat.

    python examples/learn_diffusion.py                                  # digits, no file needed
    python examples/learn_diffusion.py --dataset 20newsgroups --data DIR
    python examples/learn_diffusion.py --dataset embeddings.npz         # or .npy, .csv, .txt

Prints a table, and writes it to the folder --output, with figures, the diffused embeddings and
map.html, where a browser shows the points, their clusters and the edges that closed.
Every model is trained anew for each seed; figures and embeddings are those of the first one.
"""

import argparse
import copy
import logging
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from rich.console import Console
from rich.table import Table
from sklearn.cluster import KMeans
from sklearn.datasets import fetch_20newsgroups
from sklearn.manifold import TSNE
from torch_geometric import seed_everything
from torch_geometric.data import Data

from jsem_pyg.curvature import forman_curvature
from jsem_pyg.datasets import DigitsDataset, EmbeddingDataset, embed_texts
from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.evaluation import clustering_scores, dirichlet_energy, modularity
from jsem_pyg.nn import AnisotropicDiffusion, DiffusionClassifier
from jsem_pyg.report import Findings, report
from jsem_pyg.training import fit, select_time
from jsem_pyg.transforms import FaissKNNGraph, FormanCurvature

# Where --data is looked for if it is not given; otherwise 20 Newsgroups are downloaded.
DATA_FOLDERS = ("data", "../data", "../shared/data")
MAP_POINTS = 2000  # at most so many points in the 2-D map, which is the slowest picture
# Ten colours that stay apart with any of the common kinds of colour blindness, too; beyond ten
# classes they come again with another marker.
COLOURS = (
    *("#332288", "#ff7f00", "#66ccee", "#bd1f01", "#000000"),
    *("#fb9a99", "#9467bd", "#ddcc77", "#8c564b", "#aa3377"),
)
MARKERS = "ox^s"

console = Console(width=max(110, Console().width))  # the table needs 100 columns


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
    seeds = "runs behind every score: each trains anew, and clusters by k-means"
    parser.add_argument("--seeds", type=int, default=5, help=seeds)
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--no-figures", action="store_true")
    return parser.parse_args(argv)


def load(args: argparse.Namespace) -> tuple[Data, list[str]]:
    """The points, with rows of length one, their labels if they have any, and their classes."""
    root = args.output / "datasets" / Path(args.dataset).name
    if args.dataset == "digits":
        dataset = DigitsDataset(root)
    elif args.dataset == "20newsgroups":
        dataset = load_20newsgroups(root, args.data)
    else:
        dataset = EmbeddingDataset(root, args.dataset)
    data = dataset[0]
    data.x = F.normalize(data.x)
    return data, dataset.classes


def load_20newsgroups(root: Path, folder: Path | None) -> EmbeddingDataset:
    """From ready embeddings if the folder has them, else from scikit-learn's texts (a pickle)."""
    folder = folder or next((Path(each) for each in DATA_FOLDERS if Path(each).is_dir()), root)
    ready = folder / "20newsgroups_train_minilm.npz"
    if not ready.is_file():
        ready = root / ready.name
        posts = fetch_20newsgroups(
            data_home=folder / "scikit_learn_data", remove=("headers", "footers", "quotes")
        )
        root.mkdir(parents=True, exist_ok=True)
        x = embed_texts(posts.data).numpy()
        np.savez(ready, x=x, y=posts.target, target_names=posts.target_names)
    return EmbeddingDataset(root, ready)


class Open(torch.nn.Module):
    """Every edge conducts fully."""

    def forward(
        self, edge_attr: torch.Tensor | None, x_i: torch.Tensor, x_j: torch.Tensor
    ) -> torch.Tensor:
        return x_i.new_ones(len(x_i))


class Represented(NamedTuple):
    """The points as one run gives them; what training tells is missing where there was none."""

    x: torch.Tensor  # [N, D]: class probabilities, or diffused features
    t: float = 0.0
    conductance: torch.Tensor | None = None  # [E]
    history: pd.DataFrame | None = None


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    seed_everything(args.seed)
    args.output.mkdir(parents=True, exist_ok=True)

    data, classes = load(args)
    data = FaissKNNGraph(args.k, args.metric)(data)
    data = FormanCurvature(args.curvature)(data)
    console.print(f"{args.dataset}: {data}")

    runs = represent(args, data)
    clusters = num_clusters(args, data) if data.y is not None or args.clusters else None
    table = score(runs, data, clusters, seeds_of(args))
    show(table)
    table.to_csv(args.output / "results.csv")
    learned = list(runs.values())[-1][0]
    seconds = learned.history["seconds"]
    low, middle, high = learned.conductance.quantile(torch.tensor([0.05, 0.5, 0.95])).tolist()
    unit = "rounds" if args.conductance == "agreement" else "epochs"
    console.print(
        f"training: {len(seconds)} {unit}, {seconds.median() * 1000:.0f} ms each (median)\n"
        f"conductance: median {middle:.3f}, 90 % of the edges in [{low:.3f}, {high:.3f}]"
    )
    save_embeddings(args.output / "embeddings.npz", learned.x, data)
    if not args.no_figures:
        draw(args, data, classes, {name: each[0] for name, each in runs.items()})
        write_map(args, data, classes, learned, table)
    console.print(f"Written to {args.output}/")
    return table


def seeds_of(args: argparse.Namespace) -> range:
    return range(args.seed, args.seed + args.seeds)


def represent(args: argparse.Namespace, data: Data) -> dict[str, list[Represented]]:
    """Every representation by name, simplest first: a run for each seed."""
    t = select_time(data).t
    heat = heat_diffusion(data.x, data.edge_index, data.edge_weight, t)
    runs = {"raw": [Represented(data.x)] * args.seeds}
    runs["isotropic heat"] = [Represented(heat, t)] * args.seeds
    is_classifier = args.conductance == "agreement"
    train, kind = (train_itself, "classifier") if is_classifier else (train_by_triplets, "triplets")
    for name, is_open in {"every edge open": True, "learned conductance": False}.items():
        runs[f"{kind}, {name}"] = [train(args, data, t, seed, is_open) for seed in seeds_of(args)]
    return runs


def train_itself(
    args: argparse.Namespace,
    data: Data,
    t: float,
    seed: int,
    is_open: bool = False,
    rounds: int | None = None,
) -> Represented:
    """Clusters teach a classifier, whose probabilities diffuse and teach it anew."""
    sizes = data.x.size(1), num_clusters(args, data)
    seed_everything(seed)
    model = DiffusionClassifier(*sizes, t=t, conductance=Open() if is_open else None)
    result = fit(model, data, epochs=rounds or args.epochs, seed=seed, device=args.device)
    model.cpu()
    graph = data.x, data.edge_index, data.edge_weight
    with torch.no_grad():
        p, conductance = model(*graph), model.conductances(*graph)
    return Represented(p, model.t.item(), conductance, result.to_pandas())


def train_by_triplets(
    args: argparse.Namespace, data: Data, t: float, seed: int, is_open: bool = False
) -> Represented:
    """Neighbours are to be alike and strangers not, by what curvature says of the edges.

    With every edge open, the time alone learns.
    """
    if is_open:
        data = copy.copy(data)
        data.edge_attr = None
    seed_everything(seed)
    edge_dim = 0 if is_open else data.edge_attr.size(1)
    model = AnisotropicDiffusion(edge_dim, t=t, conductance=args.conductance)
    sketch_dim = args.sketch_dim if 0 < args.sketch_dim < data.x.size(1) else None
    options = {"epochs": args.epochs, "seed": seed, "device": args.device}
    result = fit(model, data, lr=args.lr, sketch_dim=sketch_dim, **options)
    model.cpu()
    with torch.no_grad():
        z = model(data.x, data.edge_index, data.edge_weight, data.edge_attr)
        h = torch.ones(data.num_edges) if is_open else model.conductance(data.edge_attr)
    return Represented(z, model.t.item(), h, result.to_pandas())


def num_clusters(args: argparse.Namespace, data: Data) -> int:
    """As many as asked for, or as there are classes."""
    if args.clusters:
        return args.clusters
    if data.y is None:
        raise SystemExit("These points have no labels. To fix this, say how many --clusters.")
    return int(data.y.unique().numel())


def score(
    runs: dict[str, list[Represented]], data: Data, clusters: int | None, seeds: Sequence[int]
) -> pd.DataFrame:
    """A row for each representation: means and standard deviations over the seeds."""
    rows = []
    for name, each in runs.items():
        for run, seed in zip(each, seeds, strict=True):
            row = {"representation": name, "t": run.t}
            if data.y is not None:
                scores = clustering_scores(run.x, data.y, clusters, seeds=[seed])
                row |= {"ari": scores.ari, "nmi": scores.nmi, "acc": scores.acc}
            # How rough the representation is on the graph: Dirichlet energy, between 0 and 2.
            energy = dirichlet_energy(run.x, data.edge_index, data.edge_weight, relative=True)
            rows.append(row | {"energy": float(energy)})
    groups = pd.DataFrame(rows).groupby("representation", sort=False)
    mean, std = groups.mean(), groups.std(ddof=0)
    columns = {
        f"{measure}_{kind}": table[measure]
        for measure in mean.columns
        for kind, table in (("mean", mean), ("std", std))
    }
    return pd.DataFrame(columns).assign(seeds=len(seeds))


def show(table: pd.DataFrame) -> None:
    """Print the table; scores with their standard deviation, the rest as means."""
    seeds = f"{table['seeds'].iloc[0]} seeds"
    rich_table = Table(title=f"k-means, mean ± standard deviation over {seeds}")
    measures = [column.removesuffix("_mean") for column in table if column.endswith("_mean")]
    headings = {"ari": "ARI", "nmi": "NMI", "acc": "ACC"}
    for heading in ("representation", *(headings.get(each, each) for each in measures)):
        rich_table.add_column(heading, no_wrap=True)
    for name, row in table.iterrows():
        cells = [f"{row['t_mean']:.3g}"]
        cells += [
            f"{row[f'{each}_mean']:.3f} ± {row[f'{each}_std']:.3f}" for each in measures[1:-1]
        ]
        rich_table.add_row(str(name), *cells, f"{row['energy_mean']:.3f}")
    console.print(rich_table)


def save_embeddings(path: Path, x: torch.Tensor, data: Data) -> None:
    """Write the diffused embeddings whole: to a temporary file that then takes the name."""
    arrays = {"x": x.numpy()} if data.y is None else {"x": x.numpy(), "y": data.y.numpy()}
    temporary = path.with_name(f".{path.name}")
    with temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    os.replace(temporary, path)


def write_map(
    args: argparse.Namespace,
    data: Data,
    classes: list[str],
    learned: Represented,
    table: pd.DataFrame,
) -> None:
    """The points, their clusters and edges, in a page for a browser."""
    found = Findings(find_clusters(args, data, learned), learned.conductance, learned.t)
    measures = [name.removesuffix("_mean") for name in table if name.endswith("_mean")]
    report(
        data,
        found,
        args.output / "map.html",
        label_names=None if data.y is None else classes,
        scores={
            name: {each: (row[f"{each}_mean"], row[f"{each}_std"]) for each in measures}
            for name, row in table.iterrows()
        },
        settings=vars(args),
        title=f"{args.dataset}: {table.index[-1]}",
        random_state=args.seed,
    )


def find_clusters(args: argparse.Namespace, data: Data, run: Represented) -> torch.Tensor:
    """The most probable class of a classifier, or k-means; all one if nobody knows how many."""
    if args.conductance == "agreement":
        return run.x.argmax(-1)
    if data.y is None and not args.clusters:
        return torch.zeros(data.num_nodes, dtype=torch.int64)
    return cluster(args, data, run.x)


def cluster(args: argparse.Namespace, data: Data, x: torch.Tensor) -> torch.Tensor:
    kmeans = KMeans(num_clusters(args, data), n_init=3, random_state=args.seed)
    return torch.from_numpy(kmeans.fit_predict(F.normalize(x).numpy())).long()


def draw(
    args: argparse.Namespace, data: Data, classes: list[str], shown: dict[str, Represented]
) -> None:
    learned = list(shown.values())[-1]
    curvature = forman_curvature(
        data.edge_index, data.edge_weight, data.num_nodes, method=args.curvature
    )
    is_classifier = args.conductance == "agreement"
    training = draw_rounds(args, data, shown) if is_classifier else draw_losses(learned.history)
    figures = {
        "training.png": training,
        "curvature.png": draw_curvature(curvature, data),
        "conductance.png": draw_conductance(learned.conductance, data),
        "map.png": draw_map({name: each.x for name, each in shown.items()}, data, classes),
    }
    for name, figure in figures.items():
        figure.savefig(args.output / name, dpi=150)
        plt.close(figure)


def follow_rounds(args: argparse.Namespace, data: Data, learned: Represented) -> pd.DataFrame:
    """What each round of self-training made of the classes; nothing here needs labels.

    Training is deterministic, so a run of two rounds is the beginning of one of four.
    """
    last = len(learned.history)
    runs = [train_itself(args, data, learned.t, args.seed, rounds=r) for r in range(1, last)]
    found = [run.x.argmax(-1) for run in (*runs, learned)]
    changed = [float((a != b).float().mean()) for a, b in pairwise(found)]
    fitness = [modularity(data.edge_index, data.edge_weight, each) for each in found]
    rounds = pd.RangeIndex(1, last + 1, name="round")
    return pd.DataFrame({"changed": [np.nan, *changed], "modularity": fitness}, rounds)


def draw_rounds(args: argparse.Namespace, data: Data, shown: dict[str, Represented]) -> plt.Figure:
    """Whether self-training settles, and on what.

    Its loss does not tell: the classifier learns from the certain half of each class, which it fits
    at once, and "val_loss" compares it with the graph on the other half, where the two differ most.
    That it is high, or rises, is no sign of divergence.
    """
    *before, learned = [(name, shown[name]) for name in ("raw", "isotropic heat", [*shown][-1])]
    rounds = follow_rounds(args, data, learned[1])
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
    bars = left.bar(rounds.index, 100 * rounds["changed"], width=0.5)
    left.bar_label(bars, [f"{share:.2g} %" for share in 100 * rounds["changed"]], padding=2)
    left.set(title="Points whose class changed", ylabel="per cent, since the round before")
    left.set(xlim=(1.4, len(rounds) + 0.6), ylim=(0, max(1, 120 * rounds["changed"].max())))
    right.plot(rounds.index, rounds["modularity"], marker="o", label="self-training")
    for (name, run), style in zip(before, (":", "--"), strict=True):
        fitness = modularity(data.edge_index, data.edge_weight, cluster(args, data, run.x))
        right.axhline(fitness, color="0.4", ls=style, label=f"k-means, {name}")
    right.set(title="How well the classes fit the graph", ylabel="modularity")
    low, high = right.get_ylim()
    right.set(xlim=(0.6, len(rounds) + 0.4), ylim=(low - 0.01, high + 0.01))
    right.legend()
    for axis in (left, right):
        axis.set(xlabel="round")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.suptitle("Self-training, without labels")
    return figure


def draw_losses(history: pd.DataFrame) -> plt.Figure:
    figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
    axis.plot(history.index, history["loss"], marker=".", alpha=0.5, label="what it learns from")
    axis.plot(history.index, history["val_loss"], marker=".", label="held out")
    axis.set(title="Training by triplets, without labels", xlabel="epoch", ylabel="loss")
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


def draw_map(
    representations: dict[str, torch.Tensor], data: Data, classes: list[str]
) -> plt.Figure:
    """A t-SNE of each representation; all begin with the map of the first one.

    So a class stays about where it was, if nothing moves it, but distances cannot be compared from
    one panel to another.
    """
    figure, axes = plt.subplots(2, 2, figsize=(11, 9), layout="constrained")
    generator = torch.Generator().manual_seed(0)
    sample = torch.randperm(data.num_nodes, generator=generator)[:MAP_POINTS]
    y = None if data.y is None else data.y[sample].numpy()
    start: str | np.ndarray = "pca"
    for axis, (name, x) in zip(axes.flat, representations.items(), strict=True):
        points = F.normalize(x[sample]).numpy()
        perplexity = min(30.0, (len(points) - 1) / 3)
        tsne = TSNE(perplexity=perplexity, init=start, max_iter=500, random_state=0)
        flat = tsne.fit_transform(points)
        if isinstance(start, str):
            start = 1e-4 * flat / flat[:, 0].std()  # as small as "pca" begins
        scatter(axis, flat, y, classes)
        axis.set(title=name, xticks=[], yticks=[])
    figure.suptitle("Each panel is a t-SNE of its own, which starts from the map of the raw points")
    if y is not None:
        columns = -(-len(classes) // 25)
        handles, names = axes.flat[0].get_legend_handles_labels()
        style = {"title": "class", "frameon": False, "markerscale": 2.5, "ncols": columns}
        figure.legend(handles, names, loc="outside right upper", **style)
    return figure


def scatter(axis: plt.Axes, flat: np.ndarray, y: np.ndarray | None, classes: list[str]) -> None:
    """Points in the colour and marker of their class, and up to ten classes by name."""
    if y is None:
        axis.scatter(*flat.T, s=6, lw=0, color=COLOURS[0])
        return
    for label, name in enumerate(classes):
        own = flat[y == label]
        marker = MARKERS[label // len(COLOURS) % len(MARKERS)]
        style = {"marker": marker, "s": 9, "lw": 0.7 if marker == "x" else 0}
        axis.scatter(*own.T, color=COLOURS[label % len(COLOURS)], label=name, **style)
        if len(own) and len(classes) <= len(COLOURS):
            middle = own[np.abs(own - np.median(own, axis=0)).sum(1).argmin()]  # on a point of it
            halo = [withStroke(linewidth=3, foreground="white")]
            centre = {"ha": "center", "va": "center", "path_effects": halo}
            axis.annotate(name, middle, fontsize=11, weight="bold", **centre)


if __name__ == "__main__":
    main()
