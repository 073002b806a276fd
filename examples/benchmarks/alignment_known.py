"""Which node is which, if some partners, or features of nodes, are known?

Pairs of networks with known partners and features (`anchored.npz`, and PARROT's `.mat` files if
--data has any), and graphs that lose a share of their edges in the target. A share of the true
pairs is given (of `anchored.npz`, draw 0 is the published one), and the others are looked for:
Hits@k, with the mean over all orders of equal scores. Every run is one line of
`alignment_known_runs.csv`, and runs that are there already are not repeated.

    export OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1
    python examples/benchmarks/alignment_known.py --data DIR              # half an hour
    python examples/benchmarks/alignment_known.py --data DIR --planet DIR --ways PARROT IsoRank

Peers: SciPy's FAQ with known pairs; graspologic's `graph_match` with seeds, where it is installed;
PARROT and IsoRank of PlanetAlign, from a clone (--planet). FAQ and graspologic make tables of all
pairs and give one partner, so they are run on small graphs, and have no Hits@5.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import pandas as pd
import torch
from helpers.alignment_cases import matrix_of
from reporting import PeakMemory, Rows, machine, parser_of, write_table
from scipy.io import loadmat
from scipy.optimize import quadratic_assignment
from scipy.sparse import csr_array
from torch_geometric.data import Data

from jsem_pyg.transport import match_graphs

GRAPHS = ("ca-netscience", "bio-celegans", "in-arenas", "inf-euroroad", "inf-power")
RUN = ["pair", "removed", "known", "features", "draw", "way"]
SCORES = ["Hits@1", "Hits@5", "Hits@10", "MRR"]
SMALL = 1500  # nodes that FAQ and graspologic match


class Pair(NamedTuple):
    """Two graphs [N, N] and [K, K], true pairs [2, M], and features of both sides."""

    source: csr_array
    target: csr_array
    truth: np.ndarray
    features: tuple[np.ndarray, np.ndarray] | None
    known: np.ndarray | None = None  # the published ones


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder of anchored.npz, graphs and .mat files")
    add("--pairs", nargs="+", help="names; all")
    add("--removed", type=int, nargs="+", default=[0, 10, 25], help="%% of a graph's edges")
    add("--known", type=int, nargs="+", default=[0, 1, 5, 10, 20], help="%% of the true pairs")
    add("--noise", type=int, nargs="+", default=[0, 25, 50], help="%% of the features redrawn")
    add("--draws", type=int, default=5)
    add("--ways", nargs="+", choices=list(WAYS), default=["ours", "FAQ", "graspologic"])
    add("--planet", type=Path, help="clone of github.com/yq-leo/PlanetAlign")
    return parser.parse_args(argv)


def real_pairs(folder: Path) -> dict[str, Callable[[], Pair]]:
    """Networks of the same people or authors, by name."""
    found: dict[str, Callable[[], Pair]] = {}
    if (folder / "anchored.npz").exists():
        found["phone-email"] = lambda: anchored(folder, "phone_email", "phone", "email")
        found["ACM-DBLP"] = lambda: anchored(folder, "ACM_DBLP_A", "A_ACM", "A_DBLP")
    for file in sorted(folder.glob("*.mat")):
        found[file.stem] = lambda file=file: of_matlab(file)
    return found


def anchored(folder: Path, name: str, first: str, second: str) -> Pair:
    table = np.load(folder / "anchored.npz")
    stem = name.removesuffix("_A")
    sides, features = [], []
    for each in (first, second):
        edges, size = table[f"{stem}_{each}_ij"], int(table[f"{stem}_{each}_shape"][0])
        sides.append(matrix_of(edges.astype(np.int64).T, size))
        features.append(table.get(f"{stem}_{each}_node_feat"))
    known = np.stack(np.nonzero(table[f"{name}_H"])[::-1])
    truth = join(known, table[f"{name}_gnd"].astype(np.int64).T - 1)
    counts = None if features[0] is None else tuple(np.log1p(each * 1.0) for each in features)
    return Pair(*sides, truth, counts, known)


def of_matlab(file: Path) -> Pair:
    """PARROT's own format: two matrices, H [K, N], gnd from 1 on, and perhaps features."""
    table = loadmat(file)
    names = [name for name in table if not name.startswith("_") and name not in ("H", "gnd")]
    sides = [csr_array(table[name]) for name in names if "feat" not in name]
    features = tuple(table[name] * 1.0 for name in names if "feat" in name) or None
    known = np.stack(csr_array(table["H"]).nonzero()[::-1])
    graphs = (matrix_of(np.stack(each.nonzero(), 1), each.shape[0]) for each in sides)
    return Pair(*graphs, join(known, table["gnd"].astype(np.int64).T - 1), features, known)


def join(known: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.unique(np.concatenate([known, others], 1), axis=1)


def graph_pair(file: Path, removed: int, draw: int) -> Pair:
    """A graph, and the same under other names without a share of its edges."""
    table = np.load(file)
    edges, size = table["edges"].astype(np.int64).T, int(table["num_nodes"])
    random = np.random.default_rng([draw, removed])
    name = random.permutation(size)
    kept = edges[:, random.random(edges.shape[1]) >= removed / 100]
    truth = np.stack([np.arange(size), name])
    return Pair(matrix_of(edges.T, size), matrix_of(name[kept].T, size), truth, None)


def cases(args: argparse.Namespace) -> Iterator[tuple[dict[str, Any], Callable[[], Pair]]]:
    """What is measured: how a line begins, and the pair that it is about."""
    for draw in range(args.draws):
        for name, make in real_pairs(args.data).items():
            if name not in (args.pairs or [name]):
                continue
            has_features = make().features is not None
            for known in args.known:
                for noise in [None, *args.noise] if has_features else [None]:
                    if known or noise is not None:
                        features = "none" if noise is None else f"{noise} % redrawn"
                        yield dict(zip(RUN, (name, 0, known, features, draw), strict=False)), make
        for name in GRAPHS:
            file = args.data / f"{name}.npz"
            if file.exists() and name in (args.pairs or [name]):
                for removed in args.removed:
                    for known in args.known:
                        start = dict(zip(RUN, (name, removed, known, "none", draw), strict=False))
                        yield start, lambda f=file, r=removed, d=draw: graph_pair(f, r, d)


def measure(case: dict[str, Any], pair: Pair, way: str, planet: Path | None) -> dict[str, Any]:
    random = np.random.default_rng([case["draw"], case["known"]])
    count = pair.truth.shape[1] * case["known"] // 100
    known = pair.truth[:, random.permutation(pair.truth.shape[1])[:count]]
    if pair.known is not None and case["draw"] == 0 and case["known"] == 20:
        known = pair.known
    others = pair.truth[:, ~np.isin(pair.truth[0], known[0])]
    features = None
    if case["features"] != "none":
        share = int(case["features"].split()[0]) / 100
        features = tuple(redrawn(each, share, random) for each in pair.features)
    memory, start = PeakMemory(), time.process_time()
    scores = WAYS[way](pair._replace(features=features), known, planet)
    seconds = time.process_time() - start
    return case | {"way": way} | hits(scores, others) | {
        "CPU s": seconds, "MB": memory.stop() / 2**20, "others": others.shape[1]
    }  # fmt: skip


def redrawn(table: np.ndarray, share: float, random: np.random.Generator) -> np.ndarray:
    """Replace a share of the entries by other entries of their column."""
    mixed = random.permuted(table, axis=0)
    return np.where(random.random(table.shape) < share, mixed, table)


def ours(pair: Pair, known: np.ndarray, _planet: Path | None) -> csr_array:
    sides = (graph(each) for each in (pair.source, pair.target))
    pairs = torch.from_numpy(known) if known.size else None
    plan = match_graphs(*sides, known_pairs=pairs, features=pair.features)
    best = plan.topk(100)
    return csr_array((best.values().numpy(), tuple(best.indices().numpy())), plan.shape)


def graph(edges: csr_array, x: np.ndarray | None = None) -> Data:
    edge_index = torch.from_numpy(np.stack(edges.nonzero()).astype(np.int64))
    x = None if x is None else torch.from_numpy(x).float()
    return Data(x=x, edge_index=edge_index, num_nodes=edges.shape[0])


def faq(pair: Pair, known: np.ndarray, _planet: Path | None) -> csr_array:
    size = max(pair.source.shape[0], pair.target.shape[0])
    tables = (np.pad(each.toarray(), (0, size - each.shape[0])) for each in pair[:2])
    options = {"maximize": True, "partial_match": known.T, "rng": 0}
    found = quadratic_assignment(*tables, method="faq", options=options).col_ind
    return csr_array((np.ones(size), (np.arange(size), found)), (size, size))


def seeded(pair: Pair, known: np.ndarray, _planet: Path | None) -> csr_array:
    from graspologic.match import graph_match

    tables = (each.toarray() for each in pair[:2])
    found = graph_match(*tables, partial_match=known.T, rng=0)
    places = found.indices_A, found.indices_B
    return csr_array(
        (np.ones(len(found.indices_A)), places), (pair.source.shape[0], pair.target.shape[0])
    )


def planet_way(name: str) -> Callable[[Pair, np.ndarray, Path | None], np.ndarray]:
    def run(pair: Pair, known: np.ndarray, planet: Path | None) -> np.ndarray:
        sys.path.append(str(planet))
        from PlanetAlign import algorithms
        from PlanetAlign.data import BaseData

        x = pair.features or (None, None)
        sides = [graph(*each) for each in zip(pair[:2], x, strict=True)]
        links = torch.from_numpy(pair.truth.T.copy())
        data = BaseData(sides, links, "pair")
        data.train_data = torch.from_numpy(known.T.copy())
        data.test_data = links[~torch.isin(links[:, 0], data.train_data[:, 0])]
        options = {"save_log": False, "verbose": False, "use_attr": pair.features is not None}
        found = getattr(algorithms, name)().train(data, [0, 1], **options)
        return (found[0] if isinstance(found, tuple) else found).numpy()

    return run


WAYS: dict[str, Callable[[Pair, np.ndarray, Path | None], Any]] = {
    "ours": ours,
    "FAQ": faq,
    "graspologic": seeded,
    "PARROT": planet_way("PARROT"),
    "IsoRank": planet_way("IsoRank"),
}


def hits(scores: Any, pairs: np.ndarray) -> dict[str, float]:
    """Hits@1, 5, 10 and MRR of pairs [2, M], by scores [N, K] >= 0, zero for none."""
    found = np.zeros(4)
    for i, j in pairs.T:
        row = scores[[i]].toarray()[0] if isinstance(scores, csr_array) else scores[i]
        own = row[j]
        if isinstance(scores, csr_array) and own == 0:
            continue
        above = (row > own * (1 + 1e-5)).sum()
        equal = (np.abs(row - own) <= 1e-5 * abs(own)).sum()
        found[:3] += np.clip((np.array([1, 5, 10]) - above) / equal, 0, 1)
        found[3] += np.mean(1 / (above + 1 + np.arange(equal)))
    return dict(zip(SCORES, found / max(1, pairs.shape[1]), strict=True))


def skipped(case: dict[str, Any], pair: Pair, way: str, planet: Path | None) -> bool:
    if way in ("FAQ", "graspologic"):
        is_large = max(pair.source.shape[0], pair.target.shape[0]) > SMALL
        is_missing = way == "graspologic" and find_spec("graspologic") is None
        return is_large or is_missing or case["features"] != "none" or not case["known"]
    return way != "ours" and (planet is None or not case["known"])


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    keys = [name for name in RUN if name != "draw"]
    groups = rows.groupby(keys, sort=False)
    table = groups[[*SCORES, "CPU s", "MB"]].mean()
    spread = groups["Hits@1"].std()
    table["Hits@1"] = [
        f"{mean:.3f}" + ("" if np.isnan(each) else f" ± {each:.3f}")
        for mean, each in zip(table["Hits@1"], spread, strict=True)
    ]
    for name in SCORES[1:]:
        table[name] = table[name].map("{:.3f}".format)
    one_partner = table.index.get_level_values("way").isin(["FAQ", "graspologic"])
    table.loc[one_partner, SCORES[1:]] = ""
    table["CPU s"] = table["CPU s"].map("{:.1f}".format)
    table["MB"] = table["MB"].map("{:.0f}".format)
    table["draws"] = groups.size()
    return table.reset_index().sort_values(["pair", "removed", "known", "features"], kind="stable")


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    rows = Rows(args.output / "alignment_known_runs.csv", *RUN)
    for case, make in cases(args):
        ways = [way for way in args.ways if not rows.has(*case.values(), way)]
        pair = make() if ways else None
        for way in ways:
            if not skipped(case, pair, way, args.planet):
                rows.add(measure(case, pair, way, args.planet))
    table = summary(rows.table())
    notes = [
        "# Alignment with known pairs and features",
        "Written by `examples/benchmarks/alignment_known.py`; `known` is % of the true pairs, the "
        "scores are of the others, means over draws with the deviation of Hits@1. " + machine(),
        "PARROT and IsoRank are those of PlanetAlign, with their default options. Features are "
        "logarithms of counts, in each column a share of the entries redrawn from it. Rows of one "
        "draw have no deviation; other work ran beside.",
    ]
    write_table(table, args.output, "alignment_known", notes)
    return table


if __name__ == "__main__":
    main()
