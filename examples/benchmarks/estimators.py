"""Heat in the pipelines of scikit-learn: before KMeans, HDBSCAN and UMAP, and for points to come.

    python examples/benchmarks/estimators.py    # digits, no file needed
    python examples/benchmarks/estimators.py --embeddings embeddings.npz  # with x [N, D] and y [N]

Three tables. Clusters: how well they agree with the labels (ARI), how many there are, and which
share of the points HDBSCAN leaves out as noise (these count as a cluster of their own). New points:
a fifth is kept back, and assigned later. Few labels: accuracy on points without one, of those that
were fitted and of those that come later. No parameter looks at a label. UMAP is in the extra
[study]; without it its rows are left out.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import pandas as pd
from helpers.points import load_points
from reporting import markdown, parser_of, spread
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.semi_supervised import LabelSpreading

from jsem_pyg.estimators import DiffusionClusterer, DiffusionLabelSpreading, HeatDiffusion


def heat(seed: int) -> Pipeline:
    """Heat, and rows of length one again."""
    return make_pipeline(HeatDiffusion(random_state=seed), Normalizer())


def umap(seed: int) -> Any:
    from umap import UMAP  # takes seconds: only those who run it wait

    # As UMAP's manual advises before clustering.
    options = {"min_dist": 0.0, "metric": "cosine", "random_state": seed, "n_jobs": 1}
    return UMAP(n_components=5, **options)


def clusterers(num_points: int, num_classes: int) -> dict[str, Callable[[int], Any]]:
    """Pipelines by name, each made of a seed."""

    def hdbscan() -> HDBSCAN:
        return HDBSCAN(min_cluster_size=max(5, num_points // 100), copy=True)

    def kmeans(seed: int) -> KMeans:
        return KMeans(num_classes, n_init=3, random_state=seed)

    found = {
        "KMeans": kmeans,
        "heat, KMeans": lambda seed: make_pipeline(heat(seed), kmeans(seed)),
        "DiffusionClusterer": lambda seed: DiffusionClusterer(num_classes, random_state=seed),
        'DiffusionClusterer("auto")': lambda seed: DiffusionClusterer(random_state=seed),
        "HDBSCAN": lambda seed: hdbscan(),
        "heat, HDBSCAN": lambda seed: make_pipeline(heat(seed), hdbscan()),
    }
    if find_spec("umap") is None:
        return found
    return found | {
        "UMAP, HDBSCAN": lambda seed: make_pipeline(umap(seed), hdbscan()),
        "heat, UMAP, HDBSCAN": lambda seed: make_pipeline(heat(seed), umap(seed), hdbscan()),
    }


def cluster(x: np.ndarray, y: np.ndarray, seed: int) -> Iterator[dict[str, Any]]:
    for name, make in clusterers(len(x), len(np.unique(y))).items():
        labels = make(seed).fit_predict(x)
        scores = {"ARI": adjusted_rand_score(y, labels)}
        scores |= {"clusters": len(np.unique(labels[labels >= 0])), "noise": (labels < 0).mean()}
        yield {"clusters of": name, **scores}


def assign(x: np.ndarray, y: np.ndarray, seed: int) -> Iterator[dict[str, Any]]:
    """A fifth of the points comes later."""
    x_old, x_new, y_old, y_new = train_test_split(x, y, test_size=0.2, random_state=seed)
    for name in ("KMeans", "heat, KMeans", "DiffusionClusterer"):
        model = clusterers(len(x), len(np.unique(y)))[name](seed)
        fitted = adjusted_rand_score(y_old, model.fit_predict(x_old))
        row = {"new points by": name, "ARI of fitted points": fitted}
        yield row | {"ARI of new points": adjusted_rand_score(y_new, model.predict(x_new))}


def spread_labels(
    x: np.ndarray, y: np.ndarray, seed: int, numbers: list[int]
) -> Iterator[dict[str, Any]]:
    """Few labels of each class; a fifth of the points comes later."""
    parts = train_test_split(x, y, test_size=0.2, random_state=seed, stratify=y)
    x_old, x_new, y_old, y_new = parts
    for each in numbers:
        draw, known = np.random.default_rng(seed), np.full(len(y_old), -1)
        for label in np.unique(y):
            members = draw.permutation(np.flatnonzero(y_old == label))[:each]
            known[members] = label
        for model in (
            LabelSpreading("knn", n_neighbors=15, alpha=0.9, max_iter=100),
            DiffusionLabelSpreading(random_state=seed),
        ):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", module="sklearn")  # hubs without labels
                model.fit(x_old, known)
                right = (model.transduction_ == y_old)[known < 0].mean()
                row = {"few labels": f"{type(model).__name__}, {each} a class"}
                yield row | {"fitted points": right, "new points": model.score(x_new, y_new)}


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean ± standard deviation over the seeds."""
    return rows.groupby(rows.columns[0], sort=False).agg(spread).reset_index()


def main(argv: list[str] | None = None) -> dict[str, pd.DataFrame]:
    parser = parser_of(__doc__)
    parser.add_argument("--embeddings", type=Path, help=".npz file of points x [N, D], labels y")
    parser.add_argument("--points", type=int, help="take only the first")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--labels", type=int, nargs="+", default=[5, 10], help="of each class")
    args = parser.parse_args(argv)
    x, y = (each.numpy()[: args.points] for each in load_points(args.embeddings))
    makers = {"clusters": cluster, "new": assign}
    makers["few_labels"] = lambda *given: spread_labels(*given, args.labels)
    tables = {}
    for name, make in makers.items():
        rows = pd.DataFrame([row for seed in range(args.seeds) for row in make(x, y, seed)])
        tables[name] = rows
        print(markdown(summarise(rows)), flush=True)
    return tables


if __name__ == "__main__":
    main()
