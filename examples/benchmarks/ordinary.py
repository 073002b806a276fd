"""Ordinary data: classes of unequal size, one cloud, few labels, fields, useless features.

Families of small planted inputs, each with a few draws that nothing was tuned on, and the tools
that a user would take instead, at their usual settings. The table says in how many draws ours is
within .02 of the best of them, or better.

    python examples/benchmarks/ordinary.py                     # examples/results/ordinary.md
    python examples/benchmarks/ordinary.py --only labels --draws 20
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from reporting import machine, parser_of, write_table
from scipy.optimize import quadratic_assignment
from scipy.spatial import Delaunay
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.datasets import make_circles, make_moons
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import adjusted_rand_score
from sklearn.semi_supervised import LabelSpreading
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import erdos_renyi_graph, stochastic_blockmodel_graph, to_undirected

from jsem_pyg.estimators import DiffusionClusterer, DiffusionLabelSpreading
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.training import classify_by_heat, interpolate, propagate_labels
from jsem_pyg.transport import match_graphs

ALIKE = 0.02
CLOUDS = ("ball", "heavy tails", "skewed", "square", "ring")


class Family(NamedTuple):
    """A kind of data, and what scores one draw of it: ours and the peers', higher is better."""

    about: str
    name: str
    score: str
    run: Callable[[np.random.Generator], tuple[dict[str, float], dict[str, float]]]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__, "examples/results")
    parser.add_argument("--draws", type=int, default=5, help="of each family")
    parser.add_argument("--only", nargs="+", default=["clusters", "labels", "fields", "matchings"])
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of points")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    begin, rows = time.perf_counter(), []
    for family in families(args.scale):
        if family.about in args.only:
            rows.append(measure(family, args.draws))
            print(rows[-1], flush=True)
    minutes = (time.perf_counter() - begin) / 60
    notes = [
        "# Ordinary data",
        f"By `examples/benchmarks/ordinary.py`: {args.draws} draws a family, means; {machine()}; "
        f"{minutes:.1f} minutes. Ours is *alike* in a draw if its first column is at most {ALIKE} "
        "below the best peer. A row where the peers are better is a row where you take them.",
    ]
    table = pd.DataFrame(rows)
    write_table(table, args.output, "ordinary", notes)
    return table


def measure(family: Family, draws: int) -> dict[str, object]:
    """Score each draw, and count those in which ours is alike."""
    found = []
    for draw in range(draws):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peers that do not converge say so
            found.append(family.run(np.random.default_rng(draw)))
    ours = pd.DataFrame([each[0] for each in found])
    peers = pd.DataFrame([each[1] for each in found])
    best = peers.max(axis=1) if len(peers.columns) else pd.Series(1.0, index=ours.index)
    alike = int((ours.iloc[:, 0] >= best - ALIKE).sum())
    return {
        "about": family.about,
        "family": family.name,
        "score": family.score,
        "ours": _means(ours),
        "peers": _means(peers),
        "alike": f"{alike} of {draws}",
    }


def _means(scores: pd.DataFrame) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in scores.mean().items())


def families(scale: float) -> Iterator[Family]:
    """List all families; `scale` makes their draws smaller."""
    for sizes in ((200, 200, 200), (500, 100), (900, 60, 40), (1000, 20)):
        for columns in (1, 2, 10, 50):
            yield Family(
                "clusters",
                f"{' : '.join(map(str, sizes))}, {columns} columns",
                "ARI",
                lambda draw, sizes=sizes, columns=columns: clusters(
                    *blobs(draw, _scaled(sizes, scale), columns, 10.0)
                ),
            )
    for shape in ("moons", "circles", "spiral"):
        yield Family(
            "clusters",
            shape,
            "ARI",
            lambda draw, shape=shape: clusters(*shaped(draw, shape, int(900 * scale))),
        )
    for cloud in CLOUDS:
        for columns in (1, 2, 10, 100) if cloud != "ring" else (2, 10, 100):
            yield Family(
                "clusters",
                f"one {cloud}, {columns} columns",
                "one cluster",
                lambda draw, cloud=cloud, columns=columns: counted(
                    one_cloud(draw, cloud, int(500 * scale), columns)
                ),
            )
    for sizes, labels in (
        ((300, 300, 300), (3, 3, 3)),
        ((900, 60, 40), (3, 3, 3)),
        ((900, 60, 40), (54, 4, 2)),
        ((400, 40), (3, 3)),
        ((1000, 20), (5, 5)),
    ):
        for columns in (2, 10, 50):
            yield Family(
                "labels",
                f"{' : '.join(map(str, sizes))}, {' : '.join(map(str, labels))} labels, "
                f"{columns} columns",
                "lowest recall",
                lambda draw, sizes=sizes, labels=labels, columns=columns: few_labels(
                    draw, _scaled(sizes, scale), labels, columns
                ),
            )
    for kind in ("grid", "roads", "path", "neighbours"):
        for smoothness in ("0.5", "1.5", "2.5", "infinite"):
            yield Family(
                "fields",
                f"{kind}, Matern field of smoothness {smoothness}, noise .2, a third known",
                "R2 of the rest",
                lambda draw, kind=kind, smoothness=smoothness: field(
                    draw, kind, smoothness, int(400 * scale)
                ),
            )
    for kind in ("random", "blocks"):
        for noise in (None, 1.0, 3.0, np.inf):
            what = "no features" if noise is None else f"features with noise {noise:g}"
            yield Family(
                "matchings",
                f"{kind} graph, 15 % of edges lost on each side, {what}",
                "right",
                lambda draw, kind=kind, noise=noise: matching(draw, kind, noise, int(200 * scale)),
            )


def _scaled(sizes: tuple[int, ...], scale: float) -> list[int]:
    return [max(20, int(size * scale)) for size in sizes]


def blobs(
    draw: np.random.Generator, sizes: list[int], columns: int, apart: float
) -> tuple[np.ndarray, np.ndarray]:
    """Balls of deviation one, the first at 0 and the others `apart` along the columns."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    centers = np.zeros((len(sizes), columns))
    for i in range(1, len(sizes)):
        centers[i, (i - 1) % columns] = apart * (1 + (i - 1) // columns)
    order = draw.permutation(len(y))
    return (centers[y] + draw.normal(size=(len(y), columns)))[order], y[order]


def shaped(draw: np.random.Generator, shape: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Two moons, two circles, or three arms."""
    seed = int(draw.integers(1 << 30))
    if shape == "moons":
        return make_moons(count, noise=0.08, random_state=seed)
    if shape == "circles":
        return make_circles(count, noise=0.05, factor=0.5, random_state=seed)
    y, way = np.arange(count) % 3, 0.8 + 6.6 * np.sqrt(draw.uniform(size=count))
    angle = way + 2 * np.pi * y / 3
    x = way[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    return x + 0.15 * draw.normal(size=x.shape), y


def one_cloud(draw: np.random.Generator, cloud: str, count: int, columns: int) -> np.ndarray:
    """Points without clusters."""
    if cloud == "heavy tails":
        return draw.standard_t(5, size=(count, columns))
    if cloud == "skewed":
        return draw.lognormal(size=(count, columns))
    if cloud == "square":
        return draw.uniform(size=(count, columns))
    x = draw.normal(size=(count, columns))
    if cloud == "ring":
        angle = draw.uniform(0, 2 * np.pi, count)
        x = 0.1 * x
        x[:, :2] += np.stack([np.cos(angle), np.sin(angle)], 1)
    return x


def clusters(x: np.ndarray, y: np.ndarray) -> tuple[dict[str, float], dict[str, float]]:
    """Cluster with the number given, and without."""
    k = int(y.max()) + 1
    ours = {
        "given": DiffusionClusterer(k, random_state=0),
        "auto": DiffusionClusterer(random_state=0),
    }
    peers = {
        "k-means": KMeans(k, n_init=5, random_state=0),
        "spectral": SpectralClustering(
            k, affinity="nearest_neighbors", n_neighbors=15, random_state=0
        ),
        "HDBSCAN": HDBSCAN(min_cluster_size=15),
    }
    first, others = (
        {name: float(adjusted_rand_score(y, each.fit(x).labels_)) for name, each in ways.items()}
        for ways in (ours, peers)
    )
    # Both have to be as good as the peers.
    return {"lower of both": min(first.values()), **first}, others


def counted(x: np.ndarray) -> tuple[dict[str, float], dict[str, float]]:
    """Count the clusters of one cloud."""
    ours = DiffusionClusterer(random_state=0).fit(x)
    noise_or_one = HDBSCAN(min_cluster_size=15).fit(x).labels_.max() < 1
    return (
        {"auto": float(ours.n_clusters_ == 1), "distinctness": ours.distinctness_},
        {"HDBSCAN": float(noise_or_one)},
    )


def few_labels(
    draw: np.random.Generator, sizes: list[int], labels: tuple[int, ...], columns: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Find the classes of all points from a few."""
    x, y = blobs(draw, sizes, columns, 8.0)
    known = np.full(len(y), -1)
    for c, count in enumerate(labels):
        known[draw.permutation(np.flatnonzero(y == c))[:count]] = c
    points, given = torch.from_numpy(x).float(), torch.from_numpy(known)
    data = Data(points, *_graph(points))
    peer = LabelSpreading(kernel="knn", n_neighbors=10, alpha=0.9, max_iter=300).fit(x, known)
    ours = {
        "DiffusionLabelSpreading": DiffusionLabelSpreading().fit(x, known).predict(x),
        "propagate_labels": propagate_labels(data, given).probabilities.argmax(1).numpy(),
        "classify_by_heat": classify_by_heat(data, given).probabilities.argmax(1).numpy(),
    }

    def lowest(found: np.ndarray) -> float:
        return float(min((found[y == c] == c).mean() for c in range(len(sizes))))

    return (
        {name: lowest(found) for name, found in ours.items()},
        {"LabelSpreading": lowest(peer.transduction_)},
    )


def _graph(points: Tensor) -> tuple[Tensor, None, Tensor]:
    """Return the arguments of `Data` that follow x."""
    edge_index, edge_weight = knn_graph(points, 10, "l2", progress=False)
    return edge_index, None, edge_weight


def field(
    draw: np.random.Generator, kind: str, smoothness: str, count: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Interpolate a Matern field from a third of the nodes, and count the intervals that hold."""
    places, edge_index = _map(draw, kind, count)
    count = len(places)
    far = np.linalg.norm(places[:, None] - places, axis=2) / 0.2
    if smoothness == "0.5":
        kernel = np.exp(-far)
    elif smoothness == "1.5":
        kernel = (1 + 3**0.5 * far) * np.exp(-(3**0.5) * far)
    elif smoothness == "2.5":
        kernel = (1 + 5**0.5 * far + 5 / 3 * far**2) * np.exp(-(5**0.5) * far)
    else:
        kernel = np.exp(-(far**2) / 2)
    signal = np.linalg.cholesky(kernel + 1e-7 * np.eye(count)) @ draw.normal(size=count)
    seen = np.sort(draw.permutation(count)[: count // 3])
    rest = np.setdiff1d(np.arange(count), seen)
    y = signal[seen] + 0.2 * draw.normal(size=len(seen))
    data = Data(edge_index=edge_index, num_nodes=count)
    ours = {
        "interpolate": interpolate(data, y, seen),
        "by heat": interpolate(data, y, seen, kernel="heat", normalization="sym"),
    }
    peer = GaussianProcessRegressor(
        ConstantKernel() * RBF(0.2) + WhiteKernel(0.1), normalize_y=True, n_restarts_optimizer=2
    )
    peer.fit(places[seen], y)

    def explained(found: np.ndarray) -> float:
        return float(1 - ((found - signal[rest]) ** 2).mean() / signal[rest].var())

    scores = {name: explained(found.mean.numpy()[rest]) for name, found in ours.items()}
    for name, found in ours.items():
        error = np.abs(found.mean.numpy()[rest] - signal[rest])
        inside = (error < 1.96 * found.deviation.numpy()[rest]).mean()
        scores[f"inside 95 % {name}"] = float(inside)
    return scores, {"GP with places": explained(peer.predict(places[rest]))}


def _map(draw: np.random.Generator, kind: str, count: int) -> tuple[np.ndarray, Tensor]:
    """Draw places, and the edges of a graph on them."""
    if kind == "path":
        nodes = torch.arange(count)
        places = np.stack([2.5 * np.arange(count) / count, np.zeros(count)], 1)
        return places, to_undirected(torch.stack([nodes[:-1], nodes[1:]]))
    if kind == "grid":
        side = int(count**0.5)
        places = np.stack(np.divmod(np.arange(side**2), side), 1) / side
        near = np.abs(places[:, None] - places).sum(2) < 1.01 / side
        return places, torch.from_numpy(np.stack((near & ~np.eye(side**2, dtype=bool)).nonzero()))
    places = draw.random((count, 2))
    if kind == "neighbours":
        return places, knn_graph(torch.from_numpy(places), 6, "l2", progress=False)[0]
    ends = Delaunay(places).simplices[:, [0, 1, 2, 1, 2, 0]].reshape(-1, 2, 3).transpose(1, 0, 2)
    return places, to_undirected(torch.from_numpy(ends.reshape(2, -1)).long())


def matching(
    draw: np.random.Generator, kind: str, noise: float | None, count: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Match two thinned copies of a graph, by edges and by features that say more or less."""
    torch.manual_seed(int(draw.integers(1 << 30)))
    if kind == "random":
        edges = erdos_renyi_graph(count, 12 / count)
    else:
        inside = torch.eye(4) * 40 / count + 3 / count
        edges = stochastic_blockmodel_graph([count // 4] * 4, inside.clamp(max=1))
        count = count // 4 * 4
    edges = edges[:, edges[0] < edges[1]]
    name = torch.randperm(count)
    sides = []
    for to in (torch.arange(count), name):
        kept = edges[:, torch.rand(edges.size(1)) > 0.15]
        sides.append(Data(edge_index=to_undirected(to[kept], num_nodes=count), num_nodes=count))
    features = None
    if noise is not None:
        own = torch.randn(count, 8) if noise < np.inf else torch.zeros(count, 8)
        spread = min(noise, 1.0) if noise == np.inf else noise
        features = (
            own + spread * torch.randn(count, 8),
            (own + spread * torch.randn(count, 8))[name.argsort()],
        )
    plan = match_graphs(*sides, features=features)
    right = float((plan.argmax() == name).float().mean())
    by_edges = match_graphs(*sides).argmax() if features is not None else plan.argmax()
    dense = []
    for side in sides:
        matrix = np.zeros((count, count))
        matrix[tuple(side.edge_index.numpy())] = 1
        dense.append(matrix)
    peer = quadratic_assignment(*dense, options={"maximize": True}).col_ind
    return (
        {"match_graphs": right, "its confidence": float(plan.confidence.mean())},
        {
            "by edges alone": float((by_edges == name).float().mean()),
            "FAQ (SciPy)": float((peer == name.numpy()).mean()),
        },
    )


if __name__ == "__main__":
    main()
