"""Heat in the pipelines of scikit-learn: before KMeans, HDBSCAN and UMAP, and for points to come.

    python examples/benchmarks/estimators.py  # digits, no file needed
    python examples/benchmarks/estimators.py --embeddings embeddings.npz  # with x [N, D] and y [N]

Three tables and a picture. Clusters: how well they agree with the labels (ARI), how many there are,
and which share of the points HDBSCAN leaves out as noise (these count as a cluster of their own).
New points: a fifth is kept back, and assigned later. Few labels: accuracy on points without one, of
those that were fitted and of those that come later. No parameter looks at a label. UMAP is in the
extra [study]; without it its rows are left out.
"""

import argparse
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.semi_supervised import LabelSpreading

from jsem_pyg.estimators import DiffusionClusterer, DiffusionLabelSpreading, HeatDiffusion


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--embeddings", type=Path, help=".npz file of points x [N, D], labels y")
    parser.add_argument("--points", type=int, help="take only so many, at random")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--labels", type=int, nargs="+", default=[5, 10], help="of each class")
    parser.add_argument("--umap-epochs", type=int, help="UMAP's own choice if omitted")
    parser.add_argument("--output", type=Path, default=Path("output"))
    return parser.parse_args(argv)


def load(args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """The points, with rows of length one, and their labels."""
    if args.embeddings is None:
        x, y = load_digits(return_X_y=True)
    else:
        with np.load(args.embeddings, allow_pickle=False) as file:
            x, y = file["x"], file["y"]
    if args.points is not None:
        kept = np.random.default_rng(0).permutation(len(x))[: args.points]
        x, y = x[kept], y[kept]
    return Normalizer().fit_transform(x.astype(np.float32)), y


def heat(seed: int) -> Pipeline:
    """Heat, and rows of length one again."""
    return make_pipeline(HeatDiffusion(random_state=seed), Normalizer())


def umap(args: argparse.Namespace, seed: int, dimensions: int = 5):
    from umap import UMAP  # takes seconds: only those who run it wait

    return UMAP(
        n_components=dimensions,
        min_dist=0.0,  # as UMAP's manual advises before clustering
        metric="cosine",
        n_epochs=args.umap_epochs,
        random_state=seed,
        n_jobs=1,
    )


def hdbscan(num_points: int) -> HDBSCAN:
    return HDBSCAN(min_cluster_size=max(5, num_points // 100), copy=True)


def clusterers(args: argparse.Namespace, num_points: int, num_classes: int) -> dict[str, Callable]:
    """Pipelines by name, each made of a seed."""

    def kmeans(seed: int) -> KMeans:
        return KMeans(num_classes, n_init=3, random_state=seed)

    found = {
        "KMeans": kmeans,
        "heat, KMeans": lambda seed: make_pipeline(heat(seed), kmeans(seed)),
        "DiffusionClusterer": lambda seed: DiffusionClusterer(num_classes, random_state=seed),
        'DiffusionClusterer("auto")': lambda seed: DiffusionClusterer(random_state=seed),
        "HDBSCAN": lambda seed: hdbscan(num_points),
        "heat, HDBSCAN": lambda seed: make_pipeline(heat(seed), hdbscan(num_points)),
    }
    if find_spec("umap") is None:
        print("UMAP is not installed: its rows are left out (pip install umap-learn).\n")
        return found
    return found | {
        "UMAP, HDBSCAN": lambda seed: make_pipeline(umap(args, seed), hdbscan(num_points)),
        "heat, UMAP, HDBSCAN": lambda seed: make_pipeline(
            heat(seed), umap(args, seed), hdbscan(num_points)
        ),
    }


def cluster(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    rows = []
    for name, make in clusterers(args, len(x), len(np.unique(y))).items():
        for seed in range(args.seeds):
            labels = make(seed).fit_predict(x)
            count, noise = len(np.unique(labels[labels >= 0])), (labels < 0).mean()
            scores = {"ARI": adjusted_rand_score(y, labels), "clusters": count, "noise": noise}
            rows.append({"clusters of": name, "seed": seed, **scores})
    return pd.DataFrame(rows)


def assign(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    """A fifth of the points comes later."""
    rows, num_classes = [], len(np.unique(y))
    for seed in range(args.seeds):
        x_old, x_new, y_old, y_new = train_test_split(x, y, test_size=0.2, random_state=seed)
        for name in ("KMeans", "heat, KMeans", "DiffusionClusterer"):
            model = clusterers(args, len(x), num_classes)[name](seed)
            scores = {
                "ARI of fitted points": adjusted_rand_score(y_old, model.fit_predict(x_old)),
                "ARI of new points": adjusted_rand_score(y_new, model.predict(x_new)),
            }
            rows.append({"new points by": name, "seed": seed, **scores})
    return pd.DataFrame(rows)


def spread(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    """Few labels of each class; a fifth of the points comes later."""
    rows = []
    for seed in range(args.seeds):
        x_old, x_new, y_old, y_new = train_test_split(
            x, y, test_size=0.2, random_state=seed, stratify=y
        )
        for each in args.labels:
            known = few_labels(y_old, each, seed)
            for model in (
                LabelSpreading("knn", n_neighbors=15, alpha=0.9, max_iter=100),
                DiffusionLabelSpreading(random_state=seed),
            ):
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", module="sklearn")  # hubs without labels
                    model.fit(x_old, known)
                    scores = {
                        "fitted points": (model.transduction_ == y_old)[known < 0].mean(),
                        "new points": model.score(x_new, y_new),
                    }
                name = f"{type(model).__name__}, {each} a class"
                rows.append({"few labels": name, "seed": seed, **scores})
    return pd.DataFrame(rows)


def few_labels(y: np.ndarray, each: int, seed: int) -> np.ndarray:
    """The labels [N] of so many points of each class, -1 elsewhere."""
    draw, known = np.random.default_rng(seed), np.full(len(y), -1)
    for label in np.unique(y):
        members = draw.permutation(np.flatnonzero(y == label))[:each]
        known[members] = label
    return known


def draw_maps(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> None:
    """UMAP of the points, as they are and after heat, coloured by their labels."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
    ways = {"UMAP": x, "HeatDiffusion, then UMAP": heat(0).fit_transform(x)}
    for axis, (name, points) in zip(axes, ways.items(), strict=True):
        axis.scatter(*umap(args, 0, 2).fit_transform(points).T, c=y, s=3, cmap="tab20")
        axis.set(title=name, xticks=[], yticks=[])
    figure.savefig(args.output / "estimators.png", dpi=120)
    plt.close(figure)


def summarise(rows: pd.DataFrame) -> str:
    """Mean ± standard deviation over the seeds, as a table of Markdown."""
    key = rows.columns[0]
    groups = rows.drop(columns="seed").groupby(key, sort=False)
    mean, spread = groups.mean(), groups.std(ddof=0)
    lines = [f"| {key} | {' | '.join(mean.columns)} |", "| --- " * (1 + mean.shape[1]) + "|"]
    for name in mean.index:
        pairs = zip(mean.loc[name], spread.loc[name], strict=True)
        lines.append(f"| {name} | {' | '.join(f'{m:.3f} ± {s:.3f}' for m, s in pairs)} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> dict[str, pd.DataFrame]:
    args = parse_args(argv)
    args.output.mkdir(parents=True, exist_ok=True)
    x, y = load(args)
    tables = {}
    for name, make in {"clusters": cluster, "new": assign, "few_labels": spread}.items():
        tables[name] = make(args, x, y)
        print(summarise(tables[name]) + "\n", flush=True)
        tables[name].to_csv(args.output / f"estimators_{name}.csv", index=False)
    if find_spec("umap") is not None:
        draw_maps(args, x, y)
    return tables


if __name__ == "__main__":
    main()
