"""What learn_diffusion.py prints, draws and writes."""

from itertools import pairwise
from pathlib import Path
from typing import Any

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
from sklearn.manifold import TSNE
from torch_geometric.data import Data

from jsem_pyg.curvature import forman_curvature
from jsem_pyg.evaluation import clustering_scores, dirichlet_energy, modularity
from jsem_pyg.report import Findings, report

MAP_POINTS = 2000  # at most so many points in the 2-D map, which is the slowest picture
# Ten colours that stay apart with any of the common kinds of colour blindness, too; beyond ten
# classes they come again with another marker.
COLOURS = (
    *("#332288", "#ff7f00", "#66ccee", "#bd1f01", "#000000"),
    *("#fb9a99", "#9467bd", "#ddcc77", "#8c564b", "#aa3377"),
)
MARKERS = "ox^s"

console = Console(width=max(110, Console().width))  # the table needs 100 columns


def score(runs: dict[str, list[Any]], data: Data, clusters: int | None) -> pd.DataFrame:
    """A row for each representation: means and standard deviations over the seeds."""
    rows = []
    for name, each in runs.items():
        for seed, run in enumerate(each):
            row = {"representation": name, "t": run.t}
            if data.y is not None:
                found = clustering_scores(run.x, data.y, clusters, seeds=[seed])
                row |= {"ari": found.ari, "nmi": found.nmi, "acc": found.acc}
            # How rough the representation is on the graph: Dirichlet energy, between 0 and 2.
            energy = dirichlet_energy(run.x, data.edge_index, data.edge_weight, relative=True)
            rows.append(row | {"energy": float(energy)})
    groups = pd.DataFrame(rows).groupby("representation", sort=False)
    both = groups.mean().join(groups.std(ddof=0), lsuffix="_mean", rsuffix="_std")
    measures = [name for name in rows[0] if name != "representation"]
    columns = [f"{measure}_{kind}" for measure in measures for kind in ("mean", "std")]
    return both[columns].assign(seeds=len(each))


def show(table: pd.DataFrame) -> None:
    """Print the table; scores with their standard deviation, the rest as means."""
    measures = [column.removesuffix("_mean") for column in table if column.endswith("_mean")]
    title = f"k-means, mean ± standard deviation over {table['seeds'].iloc[0]} seeds"
    shown = Table(title=title)
    for heading in ("representation", "t", *(each.upper() for each in measures[1:-1]), "energy"):
        shown.add_column(heading, no_wrap=True)
    for name, row in table.iterrows():
        cells = [f"{row[f'{each}_mean']:.3f} ± {row[f'{each}_std']:.3f}" for each in measures[1:-1]]
        shown.add_row(str(name), f"{row['t_mean']:.3g}", *cells, f"{row['energy_mean']:.3f}")
    console.print(shown)


def write(
    folder: Path, data: Data, learned: Any, figures: dict[str, plt.Figure], unit: str
) -> None:
    """Write the pictures and the diffused features, and say how the training went."""
    seconds = learned.history["seconds"]
    low, middle, high = learned.conductance.quantile(torch.tensor([0.05, 0.5, 0.95])).tolist()
    console.print(
        f"training: {len(seconds)} {unit}, {seconds.median() * 1000:.0f} ms each (median)\n"
        f"conductance: median {middle:.3f}, 90 % of the edges in [{low:.3f}, {high:.3f}]"
    )
    labels = {} if data.y is None else {"y": data.y.numpy()}
    np.savez_compressed(folder / "embeddings.npz", x=learned.x.numpy(), **labels)
    for name, figure in figures.items():
        figure.savefig(folder / name, dpi=150)
        plt.close(figure)


def write_map(
    folder: Path,
    data: Data,
    labels: torch.Tensor,
    learned: Any,
    table: pd.DataFrame,
    classes: list[str],
    title: str,
) -> None:
    """Write the points, their clusters and edges, as a page for a browser."""
    measures = [name.removesuffix("_mean") for name in table if name.endswith("_mean")]
    report(
        data,
        Findings(labels, learned.conductance, learned.t),
        folder / "map.html",
        label_names=None if data.y is None else classes,
        scores={
            name: {each: (row[f"{each}_mean"], row[f"{each}_std"]) for each in measures}
            for name, row in table.iterrows()
        },
        title=title,
    )


def k_means(x: torch.Tensor, clusters: int, seed: int = 0) -> torch.Tensor:
    """Cluster rows by their directions: [N]."""
    model = KMeans(clusters, n_init=3, random_state=seed)
    return torch.from_numpy(model.fit_predict(F.normalize(x).numpy())).long()


def follow_rounds(data: Data, found: list[torch.Tensor]) -> pd.DataFrame:
    """What each round of self-training made of the classes [N]; nothing here needs labels."""
    changed = [float((a != b).float().mean()) for a, b in pairwise(found)]
    fitness = [modularity(data.edge_index, data.edge_weight, each) for each in found]
    rounds = pd.RangeIndex(1, len(found) + 1, name="round")
    return pd.DataFrame({"changed": [np.nan, *changed], "modularity": fitness}, rounds)


def draw_rounds(
    data: Data, found: list[torch.Tensor], clusters: int, shown: dict[str, torch.Tensor]
) -> plt.Figure:
    """Whether self-training settles, and on what, beside k-means of the first two of `shown`.

    Its loss does not tell: the classifier learns from the certain half of each class, which it fits
    at once, and "val_loss" compares it with the graph on the other half, where the two differ most.
    That it is high, or rises, is no sign of divergence.
    """
    rounds = follow_rounds(data, found)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
    bars = left.bar(rounds.index, 100 * rounds["changed"], width=0.5)
    left.bar_label(bars, [f"{share:.2g} %" for share in 100 * rounds["changed"]], padding=2)
    left.set(title="Points whose class changed", ylabel="per cent, since the round before")
    left.set(xlim=(1.4, len(rounds) + 0.6), ylim=(0, max(1, 120 * rounds["changed"].max())))
    right.plot(rounds.index, rounds["modularity"], marker="o", label="self-training")
    for (name, x), style in zip(shown.items(), (":", "--"), strict=False):
        fitness = modularity(data.edge_index, data.edge_weight, k_means(x, clusters))
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
    """What triplets were learned from, and those held out, epoch by epoch."""
    figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
    axis.plot(history.index, history["loss"], marker=".", alpha=0.5, label="what it learns from")
    axis.plot(history.index, history["val_loss"], marker=".", label="held out")
    axis.set(title="Training by triplets, without labels", xlabel="epoch", ylabel="loss")
    axis.legend()
    return figure


def draw(
    data: Data, learned: Any, shown: dict[str, torch.Tensor], classes: list[str]
) -> dict[str, plt.Figure]:
    """Curvature and conductance of the edges, and the representations on a plane."""
    curvature = forman_curvature(data.edge_index, data.edge_weight, data.num_nodes).numpy()
    bins = np.linspace(*np.quantile(curvature, [0.002, 0.998]), 60)
    title = (
        f"Forman-Ricci curvature: median {np.median(curvature):.1f}, "
        f"standard deviation {curvature.std():.1f}"
    )
    by_curvature = histogram(data, curvature, bins, title=title, xlabel="curvature")
    style = {"title": "Learned conductance", "xlabel": "conductance", "yscale": "log"}
    by_conductance = histogram(data, learned.conductance.numpy(), np.linspace(0, 1, 41), **style)
    return {
        "curvature.png": by_curvature,
        "conductance.png": by_conductance,
        "map.png": draw_map(shown, data, classes),
    }


def histogram(data: Data, values: np.ndarray, bins: np.ndarray, **style: str) -> plt.Figure:
    """Numbers of edges, those inside a class and between two apart where classes are known."""
    figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
    once = data.edge_index[0] < data.edge_index[1]  # each edge has two directions
    values = values[once.numpy()]
    if data.y is None:
        axis.hist(values, bins)
    else:
        source, target = data.edge_index[:, once]
        same = (data.y[source] == data.y[target]).numpy()
        axis.hist([values[same], values[~same]], bins, label=["inside", "between"])
        axis.legend(title="edges in and between classes")
    axis.set(ylabel="edges", **style)
    return figure


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
