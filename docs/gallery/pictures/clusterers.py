"""Draw clusterers.png: scikit-learn's page that compares clusterers, with ours in the last column.

Shapes, sizes, seeds and the settings of the others are those of scikit-learn's example "Comparing
different clustering algorithms on toy datasets". Ours has the number of clusters, like most others,
and its defaults; in the row without structure it is asked for three, like them.

python docs/gallery/pictures/clusterers.py
"""

import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn import cluster, datasets, mixture
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import StandardScaler

from jsem_pyg.estimators import DiffusionClusterer

SAMPLES, SEED = 500, 30
DEFAULTS = {"quantile": 0.3, "eps": 0.3, "k": 3, "min_samples": 7, "xi": 0.05, "size": 0.1}


def shapes() -> list[tuple[np.ndarray, dict[str, float]]]:
    """The six sets of points, and the settings that differ from the defaults."""
    circles, _ = datasets.make_circles(SAMPLES, factor=0.5, noise=0.05, random_state=SEED)
    moons, _ = datasets.make_moons(SAMPLES, noise=0.05, random_state=SEED)
    spreads = [1.0, 2.5, 0.5]
    varied, _ = datasets.make_blobs(SAMPLES, cluster_std=spreads, random_state=170)
    stretched, _ = datasets.make_blobs(SAMPLES, random_state=170)
    blobs, _ = datasets.make_blobs(SAMPLES, random_state=SEED)
    nothing = np.random.RandomState(SEED).rand(SAMPLES, 2)
    return [
        (circles, {"quantile": 0.2, "k": 2, "xi": 0.08}),
        (moons, {"quantile": 0.2, "k": 2, "xi": 0.1}),
        (varied, {"eps": 0.18, "xi": 0.01, "size": 0.2}),
        (
            stretched @ np.array([[0.6, -0.6], [-0.4, 0.8]]),
            {"eps": 0.15, "xi": 0.1, "size": 0.2},
        ),
        (blobs, {"xi": 0.1, "size": 0.2}),
        (nothing, {}),
    ]


def clusterers(points: np.ndarray, options: dict[str, float]) -> dict[str, object]:
    """The clusterers of a row, by name."""
    number = int(options["k"])
    bandwidth = cluster.estimate_bandwidth(points, quantile=options["quantile"])
    near = kneighbors_graph(points, n_neighbors=3, include_self=False)
    near = 0.5 * (near + near.T)
    return {
        "MiniBatch\nKMeans": cluster.MiniBatchKMeans(number, random_state=SEED),
        "Affinity\nPropagation": cluster.AffinityPropagation(
            damping=0.77 if number == 2 else 0.9,
            preference={2: -240 if options["xi"] == 0.08 else -220}.get(number, -200),
            random_state=SEED,
        ),
        "MeanShift": cluster.MeanShift(bandwidth=bandwidth, bin_seeding=True),
        "Spectral\nClustering": cluster.SpectralClustering(
            number, eigen_solver="arpack", affinity="nearest_neighbors", random_state=SEED
        ),
        "Ward": cluster.AgglomerativeClustering(number, linkage="ward", connectivity=near),
        "Agglomerative\nClustering": cluster.AgglomerativeClustering(
            number, linkage="average", metric="cityblock", connectivity=near
        ),
        "DBSCAN": cluster.DBSCAN(eps=options["eps"]),
        "HDBSCAN": cluster.HDBSCAN(min_samples=3, min_cluster_size=15, copy=True),
        "OPTICS": cluster.OPTICS(
            min_samples=int(options["min_samples"]),
            xi=options["xi"],
            min_cluster_size=options["size"],
        ),
        "BIRCH": cluster.Birch(n_clusters=number),
        "Gaussian\nMixture": mixture.GaussianMixture(number, random_state=SEED),
        "Diffusion\nClusterer": DiffusionClusterer(number, random_state=SEED),
        'Diffusion\nClusterer("auto")': DiffusionClusterer(random_state=SEED),
    }


def from_left_to_right(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Clusters numbered by the place of their middle, so that colours of a row agree."""
    places = {n: points[labels == n].sum(1).mean() for n in set(labels.tolist()) - {-1}}
    number = {n: place for place, n in enumerate(sorted(places, key=places.__getitem__))}
    return np.array([number.get(n, -1) for n in labels.tolist()])


def main() -> None:
    """Fit every clusterer to every shape, and draw the table of pictures."""
    rows = shapes()
    columns = list(clusterers(rows[0][0], DEFAULTS))
    figure, axes = plt.subplots(
        len(rows), len(columns), figsize=(1.25 * len(columns), 1.25 * len(rows) + 0.5)
    )
    figure.subplots_adjust(left=0.005, right=0.995, bottom=0.01, top=0.93, wspace=0.05, hspace=0.05)
    colours = np.array(plt.get_cmap("tab10").colors)
    for axis, name in zip(axes[0], columns, strict=True):
        axis.set_title(name, size=9)
    for row, (x, options) in zip(axes, rows, strict=True):
        points = StandardScaler().fit_transform(x)
        models = clusterers(points, DEFAULTS | options).values()
        for axis, model in zip(row, models, strict=True):
            with warnings.catch_warnings():  # about graphs of several components
                warnings.simplefilter("ignore")
                labels = from_left_to_right(points, model.fit_predict(points))
            colour = np.where(labels[:, None] < 0, 0.0, colours[labels % len(colours)])
            axis.scatter(*points.T, s=3, c=colour, linewidths=0)
            axis.set(xlim=(-2.5, 2.5), ylim=(-2.5, 2.5), xticks=[], yticks=[])
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=70)


if __name__ == "__main__":
    main()
