"""Is `plan.confidence` the share of partners that are right?

Pairs are simulated: graphs of seven kinds that lose edges, and points of four kinds that are seen
twice; and pairs of sides that have nothing to do with each other, in which every partner is wrong.
For graphs, right is the true partner; for points, one of the tenth of all that is nearest to it.
The weights of logistic models are fitted to the first seeds by `--fit`, and are constants of
the package; the page is about other seeds, and about graphs of --data, which no model has seen.

    python examples/benchmarks/alignment_confidence.py                  # the page
    python examples/benchmarks/alignment_confidence.py --fit            # print weights
    python examples/benchmarks/alignment_confidence.py --data DIR       # with real graphs
    python examples/benchmarks/alignment_confidence.py --fit --models strangers --seeds 6
"""

import argparse
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
import matplotlib
import networkx as nx
import numpy as np
import pandas as pd
import torch
from alignment_strangers import planted
from helpers import cells
from helpers.alignment_cases import Case, Noise, cut, make_case, matrix_of
from helpers.alignment_ways import cost_of
from reporting import markdown, parser_of
from scipy.spatial import Delaunay
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import kneighbors_graph

from jsem_pyg.transport import FeatureCost, gromov_wasserstein, match_graphs
from jsem_pyg.transport.match import confidence as edges
from jsem_pyg.transport.match import strangers
from jsem_pyg.transport.solver import confidence as factored

matplotlib.use("Agg")
from matplotlib import pyplot as plt

GRAPHS = ("random", "preferential", "neighbours", "clustered", "small world", "roads", "blocks")
POINTS = ("cells", "mixture", "views", "curve")
LEVELS = (10, 25, 35, 45)  # % of the edges that the target loses
SHARED = (0.9, 0.8, 0.65)  # of the nodes, where each side has some that the other one lacks
SHARED_NODES = (120, 420)
KNOWN_LEVELS = (10, 30, 60, 85)  # the same, if more than edges is known; the source loses less
REAL = ("ca-netscience", "bio-celegans", "inf-euroroad")


class Sample(NamedTuple):
    """One pair that has been aligned."""

    model: str  # "graphs", "known", "features", "points" or "strangers"
    case: str
    is_related: bool
    evidence: np.ndarray  # [N, F]
    confidence: np.ndarray  # [N]
    is_right: np.ndarray  # [N]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--fit", action="store_true", help="print weights instead")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, help="seed; 0 to fit, 100 otherwise")
    parser.add_argument("--nodes", type=int, nargs=2, default=(60, 200), help="range")
    parser.add_argument("--models", nargs="+", default=["graphs", "known", "points"])
    parser.add_argument("--data", type=Path, help="folder of real graphs")
    return parser.parse_args(argv)


def graph(kind: str, size: int, seed: int) -> np.ndarray:
    """Edges [E, 2]."""
    rng = np.random.default_rng(seed)
    points = rng.random((size, 2))
    if kind == "neighbours":
        return np.stack(kneighbors_graph(points, 6).nonzero(), 1)
    if kind == "roads":  # a spanning tree of a triangulation, and some other edges of it
        corners = Delaunay(points).simplices
        links = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [0, 2]]])
        plane = nx.Graph()
        for i, j in links.tolist():
            plane.add_edge(i, j, weight=float(((points[i] - points[j]) ** 2).sum()))
        tree = list(nx.minimum_spanning_tree(plane).edges)
        return np.concatenate([tree, links[rng.random(len(links)) < 0.1]])
    share = np.eye(4) * 0.12 + 0.02
    made = {
        "random": lambda: nx.gnp_random_graph(size, 8 / size, seed=seed),
        "preferential": lambda: nx.barabasi_albert_graph(size, 3, seed=seed),
        "clustered": lambda: nx.powerlaw_cluster_graph(size, 3, 0.5, seed=seed),
        "small world": lambda: nx.watts_strogatz_graph(size, 6, 0.3, seed=seed),
        "blocks": lambda: nx.stochastic_block_model([size // 4] * 4, share, seed=seed),
        "copies": lambda: nx.duplication_divergence_graph(size, 0.5, seed=seed),
    }
    return np.array(made[kind]().edges)


def graph_samples(seed: int, nodes: tuple[int, int]) -> Iterator[Sample]:
    for kind in GRAPHS:
        rng = np.random.default_rng([seed, GRAPHS.index(kind)])
        size = int(rng.integers(*nodes))
        source, name = graph(kind, size, seed), rng.permutation(size)
        for level in (*LEVELS, None):
            other = graph(kind, size, seed + 1000) if level is None else source
            target = name[other if level is None else cut(source, level / 100, rng)]
            truth = np.full(size, -1) if level is None else name
            lost = cut(source, rng.choice([0, 0.1, 0.2]), rng)
            case = Case(matrix_of(lost, size), matrix_of(target, size), truth)
            yield matched(f"{kind}", case)


def matched(name: str, case: Case) -> Sample:
    plan = match_graphs(cost_of(case.source), cost_of(case.target))
    partner = plan.argmax().numpy()
    found = edges.evidence(case.source, case.target, partner)
    is_related = bool((case.truth >= 0).any())
    return Sample("graphs", name, is_related, found, plan.confidence.numpy(), partner == case.truth)


def known_samples(seed: int, nodes: tuple[int, int]) -> Iterator[Sample]:
    """Pairs of graphs with known pairs, of which some are wrong, features, or both."""
    for kind in GRAPHS:
        rng = np.random.default_rng([seed, GRAPHS.index(kind), 1])
        size = int(rng.integers(*nodes))
        whole, name = graph(kind, size, seed), rng.permutation(size)
        for level in (*KNOWN_LEVELS, None):
            source = cut(whole, rng.choice([0, 0.1, 0.3]), rng)
            # By other names, or two small worlds would share their ring.
            other = whole
            if level is None:
                other = rng.permutation(size)[graph(kind, size, seed + 1000)]
            target = name[other if level is None else cut(whole, level / 100, rng)]
            truth = np.full(size, -1) if level is None else name
            count = max(2, int(size * rng.choice([0.02, 0.05, 0.1, 0.3])))
            pairs = np.stack([rng.permutation(size)[:count]] * 2)
            pairs[1] = name[pairs[1]]
            wrong = int(count * rng.choice([0, 0, 0.1, 0.5, 0.8]))
            pairs[1, :wrong] = np.roll(pairs[1, :wrong], 1)
            x = rng.standard_normal((size, 8))
            y = np.empty_like(x)
            y[name] = x if level else rng.standard_normal(x.shape)
            y += rng.uniform(0.3, 3) * rng.standard_normal(y.shape)
            given = rng.integers(3)
            yield known_matched(
                kind,
                Case(matrix_of(source, size), matrix_of(target, size), truth),
                pairs if given != 1 else None,
                (x, y) if given else None,
            )


def known_matched(
    name: str,
    case: Case,
    pairs: np.ndarray | None,
    features: tuple[np.ndarray, np.ndarray] | None,
) -> Sample:
    costs = cost_of(case.source), cost_of(case.target)
    known = None if pairs is None else torch.from_numpy(pairs)
    plan = match_graphs(*costs, known_pairs=known, features=features)
    partner = plan.argmax().numpy()
    row, _, mass = plan.scores.largest(1)
    belief = np.zeros(len(partner))
    belief[row.numpy()] = 2 ** mass.double().numpy() * min(plan.shape)
    beliefs = plan.confidence_model.args[-1]
    is_related = bool((case.truth >= 0).any())
    if beliefs is None:  # the features said nothing, and the answer is that of the edges
        found = edges.evidence(case.source, case.target, partner)
        right = partner == case.truth
        return Sample("graphs", name, is_related, found, plan.confidence.numpy(), right)
    by_edges = edges.edge_confidence(case.source, case.target, partner)
    model = "known" if beliefs.bits is None else "features"
    found = edges.belief_evidence(belief, beliefs.of_known, beliefs.bits or 0.0, by_edges)
    rest = np.ones(len(partner), bool)
    rest[[] if pairs is None else pairs[0]] = False
    is_right = partner == case.truth
    confidence = plan.confidence.numpy()
    return Sample(model, name, is_related, found[rest], confidence[rest], is_right[rest])


def stranger_samples(seed: int) -> Iterator[Sample]:
    """Pairs of graphs of which each has nodes that the other one lacks; pairs found at first."""
    kinds = (*GRAPHS, "copies")  # of neighbours: near twins
    for kind in kinds:
        rng = np.random.default_rng([seed, kinds.index(kind), 2])
        size = int(rng.integers(*SHARED_NODES))
        edges, other = graph(kind, size, seed), graph(kind, size, seed + 1000)
        for share in (*SHARED, None):
            source, target, truth = planted(edges, size, share or 0.8, seed)
            if share is None:
                target, truth = planted(other, size, 0.8, seed)[1], np.full(len(truth), -1)
            stages, found = strangers.match_with_strangers(source, target, 200, 0)
            partner = stages[0][1]
            model = strangers.evidence(source, target, partner, 200, 0)
            first = partner >= 0
            sure, is_right = found.shares.sum(1), partner == truth
            is_related = share is not None
            parts = (each[first] for each in (model, sure, is_right))
            yield Sample("strangers", kind, is_related, *parts)


def points(kind: str, size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same points, seen twice: [N, r] and [N, s]."""
    if kind == "cells":
        pair = cells.simulate(size, seed)
        return pair.source, pair.target
    rng = np.random.default_rng(seed)
    groups, dim = int(rng.integers(4, 12)), int(rng.integers(6, 30))
    place = 1.5 * rng.standard_normal((groups, dim))[rng.integers(0, groups, size)]
    place = place + rng.uniform(0.3, 1) * rng.standard_normal((size, dim))
    if kind == "mixture":  # turned, with noise
        noise = rng.uniform(0, 0.6)
        turns = [np.linalg.qr(rng.standard_normal((dim, dim)))[0] for _ in range(2)]
        views = [place @ turn + noise * rng.standard_normal(place.shape) for turn in turns]
    elif kind == "views":  # by different features
        hidden = np.tanh(place @ rng.standard_normal((dim, 160)) / dim**0.5)
        views = [hidden[:, :80], hidden[:, 80:]]
    else:  # rolled up otherwise
        along, across = 3 * rng.random(size) ** rng.uniform(1, 2), rng.random(size)
        flat = along * np.cos(3 * along), along * np.sin(3 * along)
        roll = along * np.cos(2 * along), across, along * np.sin(2 * along)
        views = [np.stack(each, 1) for each in (flat, roll)]
    return torch.from_numpy(views[0]).float(), torch.from_numpy(views[1]).float()


def point_samples(seed: int, nodes: tuple[int, int]) -> Iterator[Sample]:
    for place, kind in enumerate(POINTS):
        size = int(np.random.default_rng([seed, place]).integers(*nodes))
        source, target = points(kind, size, seed)
        other = points(POINTS[(place + seed) % len(POINTS)], size, seed + 1000)[1]
        for is_related, y in ((True, target), (False, other)):
            plan = gromov_wasserstein(source, y, seed=seed, progress=False)
            sides = FeatureCost()(source), FeatureCost()(y)
            found = factored.evidence(*sides, plan).numpy()
            distance = torch.cdist(y[plan.argmax()], y)
            share = (distance < distance.diagonal()[:, None]).double().mean(1)
            is_right = (share < factored.NEAR).numpy() & is_related
            yield Sample("points", kind, is_related, found, plan.confidence.numpy(), is_right)


def real_samples(folder: Path) -> Iterator[Sample]:
    for name in REAL:
        for level in ("10", "25"):
            case = make_case(folder / f"{name}.npz", Noise("one-way", level), 0)
            yield matched(name, case)


def fit(samples: list[Sample]) -> None:
    """Print the weights of each model; every pair counts the same, unrelated graphs more."""
    for model in sorted({each.model for each in samples} - {"known"}):  # nothing is fitted there
        own = [each for each in samples if each.model == model]
        x = np.concatenate([each.evidence for each in own])
        y = np.concatenate([each.is_right for each in own])
        unrelated = 4 if model == "graphs" else 1
        counts = [1 if each.is_related else unrelated for each in own]
        sizes = [len(each.is_right) for each in own]  # zero, if no stranger was found a partner
        weight = np.repeat(np.divide(counts, np.maximum(sizes, 1)), sizes)
        found = LogisticRegression(C=1.0, fit_intercept=False, max_iter=5000)
        found.fit(x, y, weight * 100)
        print(model, "WEIGHTS =", tuple(float(each) for each in found.coef_[0].round(2)))


def table(samples: list[Sample]) -> pd.DataFrame:
    rows = []
    keys = dict.fromkeys((each.model, each.case, each.is_related) for each in samples)
    for key in keys:
        own = [each for each in samples if (each.model, each.case, each.is_related) == key]
        sure = np.concatenate([each.confidence for each in own])
        right = np.concatenate([each.is_right for each in own])
        rows.append(
            {
                "case": f"{key[1]}{', ' + key[0] if key[0] in ('known', 'features') else ''}"
                f"{'' if key[2] else ', unrelated'}",
                "pairs": len(own),
                "right": right.mean(),
                "confidence": sure.mean(),
                "calibration error": calibration_error(sure, right),
            }
        )
    return pd.DataFrame(rows)


def calibration_error(sure: np.ndarray, right: np.ndarray) -> float:
    """The mean distance of confidence and share of right ones, in ten bins."""
    label = np.minimum((10 * sure).astype(int), 9)
    sums = [np.bincount(label, each, 10) for each in (sure, right)]
    return float(np.abs(sums[0] - sums[1]).sum() / len(sure))


def draw(samples: list[Sample], file: Path) -> None:
    """The share of right partners over confidence."""
    models = list(dict.fromkeys(each.model for each in samples))
    figure, axes = plt.subplots(1, len(models), squeeze=False, layout="constrained")
    figure.set_size_inches(4 * len(models), 3.8)
    for axis, model in zip(axes[0], models, strict=True):
        own = [each for each in samples if each.model == model]
        sure = np.concatenate([each.confidence for each in own])
        right = np.concatenate([each.is_right for each in own])
        label = np.minimum((10 * sure).astype(int), 9)
        filled = np.flatnonzero(np.bincount(label, minlength=10))
        means = [[each[label == place].mean() for place in filled] for each in (sure, right)]
        axis.plot([0, 1], [0, 1], color="0.7")
        axis.plot(*means, "o-")
        axis.set(title=f"{model}: {len(own)} pairs", xlabel="confidence", ylabel="share right")
    figure.savefig(file, dpi=80)
    plt.close(figure)


PAGE = """# How much to believe an alignment

Written by `examples/benchmarks/alignment_confidence.py`. `plan.confidence` estimates for each point
the probability that its partner is right: of graphs, the true one; of points, one of the tenth of
all that is nearest to it. The models were fitted to other seeds than those of this page{real}.
"known" means pairs of graphs with known pairs, some of them wrong, and "features" with features,
with noise, that say something, both without the nodes of known pairs. Unrelated: both
sides have nothing to do with each other, and every partner is wrong.
Calibration error: mean difference of confidence and share right, in ten bins.

![Share right over confidence](alignment_confidence.png)

"""


def main(argv: list[str] | None = None) -> pd.DataFrame | None:
    args = parse_args(argv)
    first = args.first if args.first is not None else 0 if args.fit else 100
    samples = []
    for seed in range(first, first + args.seeds):
        if "graphs" in args.models:
            samples += graph_samples(seed, args.nodes)
        if "known" in args.models:
            samples += known_samples(seed, args.nodes)
        if "strangers" in args.models:
            samples += stranger_samples(seed)
        if "points" in args.models:
            samples += point_samples(seed, args.nodes)
    if args.fit:
        return fit(samples)
    if args.data is not None:
        samples += real_samples(args.data)
    args.output.mkdir(parents=True, exist_ok=True)
    draw(samples, args.output / "alignment_confidence.png")
    rows = table(samples)
    real = ", and no graph of the files" if args.data else ""
    text = PAGE.format(real=real) + markdown(rows.round(3))
    (args.output / "alignment_confidence.md").write_text(text)
    print(rows.round(3).to_string(index=False))
    return rows


if __name__ == "__main__":
    logging.getLogger("jsem_pyg").setLevel(logging.ERROR)  # some pairs do not converge
    main()
