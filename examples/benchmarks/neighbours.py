"""How long does a neighbour graph take, exactly and approximately, up to a million points?

Points are synthetic: a mixture of Gaussians, each of which varies mostly in eight directions of its
own, as embeddings of topics do; `--embeddings` takes real ones. Answers are checked first: on 2,000
points all ways against plain matrix products in torch. Then every way searches for the 15 nearest
neighbours of all points; seconds hold everything from the points to neighbours and their distances
(building an index, measuring its recall, searching). The recall is measured again, on 1,000 points
that the search has not seen for this. Peak memory is the most that was resident in the whole
process, the points and the libraries included. "graph" is the whole `knn_graph`, with weights and
links between components.

    python examples/benchmarks/neighbours.py                        # up to 100,000 points
    python examples/benchmarks/neighbours.py --max-points 1000000   # the slow ways stop earlier
"""

import argparse
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from reporting import PeakMemory, machine, parser_of, write_table
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from jsem_pyg.neighbors import knn_graph, knn_search

SIZES = [3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
# The most points for the ways that take long: minutes each on two cores.
LIMITS = {"torch": 100_000, "sklearn": 100_000, "flat": 300_000}
SAMPLE = 1000
CHUNK_NUMBERS = 1 << 26  # distances that are held at once

Search = Callable[[Tensor, int], tuple[Tensor, Tensor]]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--embeddings", type=Path, help=".npz file of points x [N, F]")
    parser.add_argument("--max-points", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--recall-target", type=float, default=0.95)
    parser.add_argument("--ways", nargs="+", choices=list(ways(0.95)), default=list(ways(0.95)))
    return parser.parse_args(argv)


def ways(recall_target: float) -> dict[str, Search]:
    """What is compared, from points [N, F] and k to neighbours and distances [N, k]."""

    def indexed(index: str) -> Search:
        return lambda x, k: knn_search(x, k, "l2", index, recall_target=recall_target)

    return {index: indexed(index) for index in ("flat", "ivf", "hnsw")} | {
        "torch": by_torch,
        "sklearn": by_sklearn,
    }


def nearest(query: Tensor, base: Tensor, k: int) -> Tensor:
    """The k nearest rows [Q, k] of `base`, by matrix products."""
    norm = base.square().sum(1)
    chunks = query.split(max(1, CHUNK_NUMBERS // base.size(0)))
    # What is the same for all rows comes last: it would cost digits in the comparison.
    found = [torch.addmm(norm, each, base.T, alpha=-2).topk(k, largest=False) for each in chunks]
    return torch.cat([each.indices for each in found])


def by_torch(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The plain reference: matrix products, and distances as they come."""
    found = nearest(x, x, k + 1)
    # The point itself comes first, except among duplicates, which the synthetic points lack.
    neighbor = found[:, 1:]
    return neighbor, (x[neighbor] - x[:, None]).norm(dim=2)


def by_sklearn(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    model = NearestNeighbors(n_neighbors=k, n_jobs=-1).fit(x.numpy())
    distance, neighbor = model.kneighbors()
    return torch.from_numpy(neighbor), torch.from_numpy(distance).float()


def clustered_points(num_points: int, num_features: int, seed: int = 0) -> Tensor:
    """A mixture of 200 Gaussians of eight main directions each, and noise in all directions."""
    generator = np.random.default_rng(seed)
    center = generator.normal(size=(200, num_features))
    directions = generator.normal(size=(200, 8, num_features)) / np.sqrt(8)
    x = np.empty((num_points, num_features), dtype=np.float32)
    label = generator.integers(200, size=num_points)
    for cluster in range(200):
        member = (label == cluster).nonzero()[0]
        along = generator.normal(size=(member.size, 8)) @ directions[cluster]
        noise = 0.1 * generator.normal(size=(member.size, num_features))
        x[member] = center[cluster] + along + noise
    return torch.from_numpy(x)


def recall(x: Tensor, neighbor: Tensor, seed: int = 12_345) -> float:
    """The share of neighbours no farther than the true k-th, by the reference, on a sample."""
    generator = torch.Generator().manual_seed(seed)
    sample = torch.randperm(x.size(0), generator=generator)[:SAMPLE]
    k = neighbor.size(1)
    true = nearest(x[sample], x, k + 1)
    far = (x[true] - x[sample][:, None]).norm(dim=2).sort(dim=1).values[:, -1:]
    found = (x[neighbor[sample]] - x[sample][:, None]).norm(dim=2)
    return float((found <= far * (1 + 1e-6)).double().mean())


def check(x: Tensor, args: argparse.Namespace) -> None:
    """The exact ways agree with the reference, and the approximate ones meet their target."""
    few = x[:2000]
    expected = by_torch(few, args.k)[1]
    for name, search in ways(args.recall_target).items():
        neighbor, distance = search(few, args.k)
        found = recall(few, neighbor)
        if name in ("flat", "torch", "sklearn"):
            error = float((distance - expected).abs().max() / expected.max())
            if not (error <= 1e-4 and found == 1):
                raise AssertionError(f"{name}: relative error {error:.2g}, recall {found:.4f}.")
        elif not found >= args.recall_target - 0.01:
            raise AssertionError(f"{name}: a recall of {found:.4f} below its target.")


def timed(call: Callable[[], tuple]) -> tuple[tuple, dict[str, float]]:
    memory = PeakMemory()
    started = time.perf_counter()
    result = call()
    seconds = time.perf_counter() - started
    return result, {"s": seconds, "peak GB": (memory.base + memory.stop()) / 1e9}


def measure(x: Tensor, args: argparse.Namespace) -> list[dict]:
    """A row for each way that is feasible with so many points, and one for the whole graph."""
    rows = []
    for name, search in ways(args.recall_target).items():
        if name in args.ways and x.size(0) <= LIMITS.get(name, x.size(0)):
            (neighbor, _), costs = timed(lambda search=search: search(x, args.k))
            rows.append({"N": x.size(0), "way": name} | costs | {"recall": recall(x, neighbor)})
            report(rows[-1])
    (edge_index, _), costs = timed(
        lambda: knn_graph(x, args.k, "l2", recall_target=args.recall_target)
    )
    rows.append({"N": x.size(0), "way": "graph"} | costs | {"edges": edge_index.size(1)})
    report(rows[-1])
    return rows


def report(row: dict) -> None:
    print(", ".join(f"{key} = {value}" for key, value in row.items()), flush=True)


def with_ratios(table: pd.DataFrame) -> pd.DataFrame:
    """How many times longer the exact search and scikit-learn took, at the same size."""
    for baseline in ("flat", "sklearn"):
        seconds = table[table["way"] == baseline].set_index("N")["s"]
        ratio = table["N"].map(seconds) / table["s"]
        table[f"{baseline} / this"] = ratio.where(table["way"] != "graph")
    return table


def describe(args: argparse.Namespace, features: int) -> str:
    kind = "clustered synthetic points" if args.embeddings is None else args.embeddings.stem
    return (
        f"{kind}, F = {features}, k = {args.k}, l2, recall target {args.recall_target:g}, float32; "
        f"{machine()}, faiss {version('faiss-cpu')}, scikit-learn {version('scikit-learn')}"
    )


def load(args: argparse.Namespace) -> list[Callable[[], Tensor]]:
    """Points of each size, made when they are needed."""
    if args.embeddings is not None:
        with np.load(args.embeddings, allow_pickle=False) as file:
            x = torch.from_numpy(file["x"].astype("float32"))
        return [lambda: x]
    sizes = [size for size in SIZES if size <= args.max_points]
    return [lambda size=size: clustered_points(size, args.features) for size in sizes]


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    rows = []
    for make in load(args):
        x = make()
        if not rows:
            header = describe(args, x.size(1))
            print(header)
            check(x, args)
        rows += measure(x, args)
    table = with_ratios(pd.DataFrame(rows).astype({"edges": "Int64"}))
    write_table(table, args.output, "neighbours", [header])
    return table


if __name__ == "__main__":
    main()
