"""Which node is which? A graph and a renamed copy of it, some of its edges changed.

A tenth of the edges is removed and as many random ones are added, nodes are renamed, and every way
is asked for the partner of each node, from the edges alone. Said are the part of nodes that are
right, the squared Gromov-Wasserstein discrepancy of the assignment over that of the true one (below
one, no way could have known better; at one with nodes wrong, these have twins with the same
neighbours), and CPU seconds, of all threads together; set OMP_NUM_THREADS=1 and
NUMBA_NUM_THREADS=1 for those of one. Means over seeds. Answers of plans are their best assignments.

Ways: ours, `match_graphs`; SciPy's `quadratic_assignment(method="faq")`; and of POT, where it is
installed (pip install pot), conditional gradients (`gromov_wasserstein`), proximal points
(`entropic_gromov_wasserstein(solver="PPA")`) and BAPG, on the adjacency matrices.

    python examples/benchmarks/graph_matching.py                      # 300 nodes, three seeds
    python examples/benchmarks/graph_matching.py --sizes 300 1000     # POT takes minutes
    python examples/benchmarks/graph_matching.py --sizes 5000 --graphs neighbours-2d --ways ours
    python examples/benchmarks/graph_matching.py --graphs embeddings --embeddings texts.npz
"""

import argparse
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from reporting import machine, write_table
from scipy.optimize import linear_sum_assignment, quadratic_assignment
from sklearn.datasets import load_digits
from torch import Tensor
from torch_geometric.utils import to_undirected

from jsem_pyg.neighbors import knn_graph
from jsem_pyg.transport import AdjacencyCost, match_graphs

GRAPHS = (
    "neighbours-2d",
    "neighbours-3d",
    "embeddings",
    "random",
    "preferential",
    "blocks",
    "small-world",
)
DEGREE = 10

Way = Callable[[AdjacencyCost, AdjacencyCost], Tensor]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[300])
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--ways", nargs="+", choices=list(ways()), default=list(ways()))
    parser.add_argument("--changed", type=float, default=0.1, help="part of the edges")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--embeddings", type=Path, help=".npz file of x [N, D]; digits without")
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    return parser.parse_args(argv)


def ways() -> dict[str, Way]:
    """What is compared, from two graphs to the partner of each node."""
    ours_and_scipy: dict[str, Way] = {"ours": by_heat, "FAQ": by_faq}
    if find_spec("ot") is None:
        return ours_and_scipy
    return ours_and_scipy | {
        "POT gw": by_gradient,
        "POT proximal": by_proximal,
        "POT BAPG": by_bapg,
    }


def by_heat(source: AdjacencyCost, target: AdjacencyCost) -> Tensor:
    return match_graphs(source, target).argmax()


def by_faq(source: AdjacencyCost, target: AdjacencyCost) -> Tensor:
    matrices = (each.dense().double().numpy() for each in (source, target))
    found = quadratic_assignment(*matrices, method="faq", options={"maximize": True})
    return torch.from_numpy(found.col_ind)


def by_gradient(source: AdjacencyCost, target: AdjacencyCost) -> Tensor:
    import ot

    return rounded(ot.gromov.gromov_wasserstein, source, target, max_iter=200)


def by_proximal(source: AdjacencyCost, target: AdjacencyCost) -> Tensor:
    import ot

    solve = ot.gromov.entropic_gromov_wasserstein
    return rounded(solve, source, target, epsilon=0.01, solver="PPA", max_iter=200)


def by_bapg(source: AdjacencyCost, target: AdjacencyCost) -> Tensor:
    import ot

    return rounded(ot.gromov.BAPG_gromov_wasserstein, source, target, epsilon=0.1, max_iter=1000)


def rounded(solve: Callable, source: AdjacencyCost, target: AdjacencyCost, **options) -> Tensor:
    """The best assignment of the plan of one of POT's solvers, between equal masses."""
    matrices = [each.dense().double().numpy() for each in (source, target)]
    masses = [np.full(len(each), 1 / len(each)) for each in matrices]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of POT: that it has not converged
        plan = np.nan_to_num(solve(*matrices, *masses, "square_loss", **options))
    return torch.from_numpy(linear_sum_assignment(plan, maximize=True)[1])


def make_graph(kind: str, size: int, seed: int, embeddings: Path | None) -> Tensor:
    """[2, E], with a mean degree of ten or a little more."""
    generator = np.random.default_rng(seed)
    if kind.startswith("neighbours"):
        points = generator.random((size, int(kind[-2])))
        return knn_graph(torch.from_numpy(points), DEGREE, "l2")[0]
    if kind == "embeddings":
        x = load_digits().data if embeddings is None else np.load(embeddings)["x"]
        chosen = generator.choice(len(x), size, replace=False)
        return knn_graph(torch.from_numpy(x[chosen]).float(), DEGREE)[0]
    if kind == "preferential":
        return preferential(size, generator)
    if kind == "small-world":
        return small_world(size, generator)
    block = np.arange(size) * 4 // size if kind == "blocks" else np.zeros(size)
    inside, across = (0.7 * 4, 0.1 * 4) if kind == "blocks" else (1, 1)
    chance = np.where(block[:, None] == block, inside, across) * DEGREE / size
    return both_ways(np.stack(np.nonzero(np.triu(generator.random((size, size)) < chance, 1))))


def preferential(size: int, generator: np.random.Generator) -> Tensor:
    """Nodes join one by one, by five edges, to those that have many (Barabási and Albert 1999)."""
    ends, edges = list(range(DEGREE // 2)), []
    for node in range(DEGREE // 2, size):
        chosen: set[int] = set()
        while len(chosen) < DEGREE // 2:
            chosen.add(ends[generator.integers(len(ends))])
        for other in sorted(chosen):
            edges.append((node, other))
            ends += [node, other]
    return both_ways(np.array(edges).T)


def small_world(size: int, generator: np.random.Generator) -> Tensor:
    """A ring of five neighbours to each side, a tenth of the edges rewired (Watts, Strogatz)."""
    row = np.repeat(np.arange(size), DEGREE // 2)
    column = (row + np.tile(np.arange(1, DEGREE // 2 + 1), size)) % size
    rewired = generator.random(row.size) < 0.1
    column[rewired] = generator.integers(size, size=int(rewired.sum()))
    return both_ways(np.stack([row, column]))


def both_ways(edges: np.ndarray) -> Tensor:
    edges = edges[:, edges[0] != edges[1]]
    return to_undirected(torch.from_numpy(edges.astype(np.int64)))


def changed_copy(edge_index: Tensor, size: int, part: float, seed: int) -> tuple[Tensor, Tensor]:
    """A noisy copy [2, E] with its nodes renamed, and the new name of each node [N]."""
    generator = np.random.default_rng(seed + 1000)
    edges = edge_index[:, edge_index[0] < edge_index[1]].numpy()
    count = round(part * edges.shape[1])
    kept = edges[:, generator.permutation(edges.shape[1])[count:]]
    known, new = set(map(tuple, edges.T.tolist())), []
    while len(new) < count:
        pair = tuple(sorted(generator.integers(size, size=2).tolist()))
        if pair[0] < pair[1] and pair not in known:
            known.add(pair)
            new.append(pair)
    edges = np.concatenate([kept, np.array(new, dtype=np.int64).reshape(-1, 2).T], 1)
    name = generator.permutation(size)
    return both_ways(name[edges]), torch.from_numpy(name)


def difference(source: AdjacencyCost, target: AdjacencyCost, partner: Tensor) -> float:
    """The sum of |A_ik - B_jl|^2 over matched pairs."""
    moved = target.scipy()[partner.numpy()][:, partner.numpy()]
    return float((source.scipy() - moved).power(2).sum())


def measure(kind: str, size: int, seed: int, args: argparse.Namespace) -> list[dict]:
    edge_index = make_graph(kind, size, seed, args.embeddings)
    other, name = changed_copy(edge_index, size, args.changed, seed)
    costs = AdjacencyCost(edge_index, num_nodes=size), AdjacencyCost(other, num_nodes=size)
    truth = difference(*costs, name)
    rows = []
    for way in args.ways:
        started = time.process_time()
        partner = ways()[way](*costs)
        seconds = time.process_time() - started
        if not torch.equal(partner.sort().values, torch.arange(size)):
            raise AssertionError(f"{way} gave no permutation.")
        right = float((partner == name).double().mean())
        ratio = difference(*costs, partner) / truth if truth else float("nan")
        rows.append({"graph": kind, "N": size, "way": way, "seed": seed, "right": right})
        rows[-1] |= {"cost / true cost": ratio, "CPU s": seconds}
        print(rows[-1], flush=True)
    return rows


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds, the least part of nodes that was right, and how long against ours."""
    groups = rows.groupby(["graph", "N", "way"], sort=False)
    table = groups[["right", "cost / true cost", "CPU s"]].mean()
    table.insert(1, "least right", groups["right"].min())
    table = table.reset_index()
    ours = table[table["way"] == "ours"].set_index(["graph", "N"])["CPU s"]
    keys = pd.MultiIndex.from_frame(table[["graph", "N"]])
    table["this / ours"] = table["CPU s"].to_numpy() / ours.reindex(keys).to_numpy()
    return table


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    match_graphs(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0, 1], [1, 0]]))  # loads kernels
    rows = [
        row
        for size in args.sizes
        for kind in args.graphs
        for seed in range(args.seeds)
        for row in measure(kind, size, seed, args)
    ]
    table = summary(pd.DataFrame(rows))
    real = "digits" if args.embeddings is None else args.embeddings.stem
    note = (
        f"{args.changed:.0%} of the edges changed, {args.seeds} seeds, embeddings: {real}; "
        f"{machine()}"
    )
    write_table(table, args.output, "graph_matching", [note])
    return table


if __name__ == "__main__":
    main()
