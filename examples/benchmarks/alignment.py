"""Which point is which, how often right, how soon, and in how much memory?

Cases, all of which have a known answer:

- "spiral": a spiral in the plane and the same spiral as a sheet in space (a Swiss roll), N and K
  points at random, which share nothing but where along the curve they lie. Said is |rho|, the rank
  correlation between a point's place and that of its partner; a mirror image is as good.
- "texts": two random halves of the dimensions of one set of embeddings, the rows of one in another
  order. Said are P@1, the part of points whose partner is right, and the accuracy of labels that
  are carried over. Without --data, digits against a random projection to 32 dimensions.

Ways: ours; torchgw and POT where they are installed (pip install pot; torchgw's licence is
non-commercial). Each runs in a process of its own, warmed up on a small problem, on one thread. CPU
seconds are the least of --repeats, from coordinates to the plan; peak memory is what the process
took beyond its data and its warmed-up libraries. "marginals off by" is the sum of |r - p| and
|c - q|, where r and c are what leaves and what arrives.

    OMP_NUM_THREADS=1 python examples/benchmarks/alignment.py                    # a few minutes
    python examples/benchmarks/alignment.py --cases spiral --sizes 20000x25000
    python examples/benchmarks/alignment.py --cases texts --data DIR --dataset agnews8k_minilm
"""

import argparse
import gc
import logging
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from reporting import PeakMemory, isolated, machine, parser_of, write_table
from scipy.stats import spearmanr
from torch import Tensor

from jsem_pyg.datasets import DigitsDataset, EmbeddingDataset
from jsem_pyg.transport import GeodesicCost, gromov_wasserstein

INNER, OUTER = 1.5 * math.pi, 4.5 * math.pi  # the angles where the spiral begins and ends, rad
WIDTH = 10.0  # of the sheet, which is some 90 long
QUICK = 20.0  # CPU seconds; what takes longer runs once
NEIGHBOURS = 10
WARM_UP = 150  # points


class Case(NamedTuple):
    """Two sides, and what is known of their correspondence."""

    source: Tensor  # [N, r]
    target: Tensor  # [K, s]
    places: tuple[Tensor, Tensor] | None = None  # [N] and [K], along the spiral
    partner: Tensor | None = None  # [N], the true ones
    labels: tuple[Tensor, Tensor] | None = None  # [N] and [K]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--sizes", nargs="+", default=["400x500", "2000x2500"], help="of spirals")
    parser.add_argument("--data", type=Path, help="folder of embeddings, .npz files of x and y")
    parser.add_argument("--dataset", default="agnews8k_minilm", help="the name of one of them")
    parser.add_argument("--points", type=int, default=2000, help="of the embeddings, at random")
    parser.add_argument("--splits", type=int, default=5, help="random halves; seeds of spirals")
    parser.add_argument("--peer-points", type=int, default=2500, help="the most they are given")
    parser.add_argument("--ways", nargs="+", help="only ways whose names begin with one of these")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=int, default=600, help="seconds for a way on a case")
    one = "all in this process: no memory is measured"
    parser.add_argument("--one-process", action="store_true", help=one)
    return parser.parse_args(argv)


def places(num_points: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Where points lie along the spiral, and their angles: length grows as half their square."""
    place = torch.rand(num_points, generator=generator)
    return place, (INNER**2 + place * (OUTER**2 - INNER**2)).sqrt()


def spiral_case(args: argparse.Namespace, size: str, seed: int) -> Case:
    generator = torch.Generator().manual_seed(seed)
    num_points, num_targets = (int(each) for each in size.split("x"))
    first, angle = places(num_points, generator)
    flat = torch.stack([angle * angle.cos(), angle * angle.sin()], 1)
    second, angle = places(num_targets, generator)
    height = WIDTH * torch.rand(num_targets, generator=generator)
    sheet = torch.stack([angle * angle.cos(), height, angle * angle.sin()], 1)
    return Case(flat, sheet, places=(first, second))


def load(args: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """Embeddings of length one, and labels; without empty texts, which cannot be told apart."""
    with tempfile.TemporaryDirectory() as root:
        if args.data is None:
            data = DigitsDataset(root)[0]
        else:
            data = EmbeddingDataset(root, args.data / f"{args.dataset}.npz")[0]
    x = F.normalize(data.x)
    _, row, count = x.unique(dim=0, return_inverse=True, return_counts=True)
    kept = count[row] <= 10  # all empty texts have the same embedding
    return x[kept], data.y[kept]


def texts_case(args: argparse.Namespace, size: str, seed: int) -> Case:
    """A random half of the dimensions, and the other one; or digits, and a random projection."""
    x, y = load(args)
    generator = torch.Generator().manual_seed(seed)
    x, y = (each[torch.randperm(len(x), generator=generator.manual_seed(seed))] for each in (x, y))
    x, y = x[: int(size)], y[: int(size)]
    if args.data is None:
        first, second = x, x @ torch.randn(64, 32, generator=generator) / 32**0.5
    else:
        dimensions = torch.randperm(x.size(1), generator=generator)
        first, second = (x[:, each] for each in dimensions.chunk(2))
    order = torch.randperm(len(x), generator=generator)
    return Case(first, second[order], partner=order.argsort(), labels=(y, y[order]))


def ours(cost: Callable[[Tensor], Any], **options: Any) -> Callable[[Case], Any]:
    def align(case: Case) -> Any:
        source, target = cost(case.source), cost(case.target)
        return gromov_wasserstein(source, target, progress=False, **options)

    return align


def torchgw(distances: bool = False, **options: Any) -> Callable[[Case], Tensor]:
    def align(case: Case) -> Tensor:
        from torchgw import sampled_gw

        if not distances:
            return sampled_gw(case.source, case.target, k=NEIGHBOURS, **options)
        known = {
            f"dist_{side}": torch.cdist(x, x)
            for side, x in (("source", case.source), ("target", case.target))
        }
        return sampled_gw(distance_mode="precomputed", **known, **options)

    return align


def pot(name: str, geodesic: bool = False, **options: Any) -> Callable[[Case], Tensor]:
    def align(case: Case) -> Tensor:
        import ot

        make = path_lengths if geodesic else squared_distances
        matrices = [make(each) for each in (case.source, case.target)]
        masses = [np.full(len(each), 1 / len(each)) for each in matrices]
        solve = getattr(ot.gromov, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged
            plan = solve(*matrices, *masses, loss_fun="square_loss", **options)
        return torch.from_numpy(np.nan_to_num(plan))

    return align


def path_lengths(x: Tensor) -> np.ndarray:
    """Of the shortest paths between all points, over the longest one."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path
    from sklearn.neighbors import kneighbors_graph

    graph = kneighbors_graph(x.double().numpy(), NEIGHBOURS, mode="distance")
    graph = csr_array(graph.maximum(graph.T))
    graph.indices, graph.indptr = (each.astype(np.int32) for each in (graph.indices, graph.indptr))
    length = shortest_path(graph, directed=False)
    return length / length.max()


def squared_distances(x: Tensor) -> np.ndarray:
    distance = torch.cdist(x, x).double().square().numpy()
    return distance / distance.max()


PROXIMAL = {"solver": "PPA", "epsilon": 0.05, "max_iter": 100}
SPIRAL_WAYS = {
    "GeodesicCost": ours(GeodesicCost(k=NEIGHBOURS)),
    "torchgw landmark, 5 iterations": torchgw(distance_mode="landmark", max_iter=5),
    "torchgw landmark, 10 iterations": torchgw(distance_mode="landmark", max_iter=10),
    "torchgw landmark, 60 iterations": torchgw(distance_mode="landmark", max_iter=60),
    "POT gromov_wasserstein": pot("gromov_wasserstein", geodesic=True),
    "POT proximal point": pot("entropic_gromov_wasserstein", geodesic=True, **PROXIMAL),
}
TEXT_WAYS = {
    "gromov_wasserstein": ours(torch.Tensor.contiguous),
    "the same without heat starts": ours(torch.Tensor.contiguous, starts=("costs", "axes", "zero")),
    "torchgw": torchgw(max_iter=100),
    "torchgw, all distances": torchgw(distances=True, max_iter=100),
    "POT gromov_wasserstein": pot("gromov_wasserstein", max_iter=200),
    "POT proximal point": pot("entropic_gromov_wasserstein", **PROXIMAL),
    "POT BAPG": pot("BAPG_gromov_wasserstein", epsilon=0.1, max_iter=200),
}
# How a case is made, what its sizes are, and the ways to solve it.
CASES: dict[str, tuple[Callable[..., Case], Callable[[Any], list[str]], dict[str, Any]]] = {
    "spiral": (spiral_case, lambda args: args.sizes, SPIRAL_WAYS),
    "texts": (texts_case, lambda args: [str(args.points)], TEXT_WAYS),
}


class Run(NamedTuple):
    """One way on one case: what a process of its own is told."""

    args: argparse.Namespace
    case: str
    size: str
    seed: int
    way: str


def measure(run: Run) -> dict[str, float]:
    """CPU seconds, peak memory, and scores."""
    logging.getLogger("jsem_pyg").setLevel(logging.ERROR)  # scores say what warnings do
    torch.set_num_threads(1)
    make, _, ways = CASES[run.case]
    align = ways[run.way]
    small = "x".join([str(min(WARM_UP, int(each))) for each in run.size.split("x")])
    align(make(run.args, small, run.seed))
    case = make(run.args, run.size, run.seed)
    gc.collect()
    seconds: list[float] = []
    memory = PeakMemory()
    while not seconds or (len(seconds) < run.args.repeats and max(seconds) < QUICK):
        plan = None  # no two at a time
        fresh = case._replace(source=case.source.clone(), target=case.target.clone())  # not cached
        started = time.process_time()
        plan = align(fresh)
        seconds.append(time.process_time() - started)
    peak = math.nan if run.args.one_process else memory.stop() / 2**20
    return {"CPU s": min(seconds), "peak MB": peak, **scores(case, plan)}


def scores(case: Case, plan: Any) -> dict[str, float]:
    """Of a `Plan`, or of a dense one."""
    is_dense = isinstance(plan, Tensor)
    partner = plan.argmax(1) if is_dense else plan.argmax()
    left, arrived = (plan.sum(1), plan.sum(0)) if is_dense else plan.marginals()
    wrong = sum((each * len(each) - 1).abs().mean() for each in (left, arrived))
    found = {"marginals off by": float(wrong)}
    if case.places is not None:
        first, second = case.places
        found["abs. rho"] = abs(float(spearmanr(first, second[partner]).statistic))
    if case.partner is not None:
        found["P@1"] = float((partner == case.partner).double().mean())
    if case.labels is not None:
        first, second = case.labels
        found["labels"] = float((second[partner] == first).double().mean())
    return found


def runs(args: argparse.Namespace) -> Iterator[tuple[Run, str]]:
    """All that is to be measured, and why some of it is not."""
    for case in args.cases:
        _, sizes, ways = CASES[case]
        for size in sizes(args):
            for way in ways:
                if args.ways and not way.startswith(tuple(args.ways)):
                    continue
                peer = next((each for each in ("torchgw", "POT") if way.startswith(each)), None)
                note = ""
                if peer is not None and max(map(int, size.split("x"))) > args.peer_points:
                    note = "not run: too many points"
                if peer is not None and find_spec({"POT": "ot"}.get(peer, peer)) is None:
                    note = "not installed"
                splits = args.splits if peer is None else 1
                for seed in range(1 if note else splits):
                    yield Run(args, case, size, seed, way), note


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each way: means over splits, and the worst of the scores."""
    keys = ["case", "size", "way"]
    groups = rows.groupby(keys, sort=False)
    table = groups.agg({"seed": "count", "CPU s": "mean"}).rename(columns={"seed": "splits"})
    for name in ("abs. rho", "P@1", "labels"):
        if name in rows:
            table[name] = groups[name].mean().map(digits)
            if name in ("abs. rho", "P@1"):
                table[f"least {name}"] = groups[name].min().map(digits)
    if "marginals off by" in rows:
        table["marginals off by"] = groups["marginals off by"].max()
    if rows["peak MB"].notna().any():
        table["peak MB"] = groups["peak MB"].max()
    table["note"] = groups["note"].first()
    return table.reset_index()


def digits(score: float) -> str:
    return "" if math.isnan(score) else f"{score:.4f}"


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    rows = []
    for run, note in runs(args):
        apart = partial(isolated, measure, limit=args.limit)
        found = {} if note else (measure if args.one_process else apart)(run)
        rows.append({"case": run.case, "size": run.size, "way": run.way, "seed": run.seed})
        rows[-1] |= {"note": note, "peak MB": math.nan, "CPU s": math.nan, **found}
        print(rows[-1], flush=True)
    table = summarise(pd.DataFrame(rows))
    data = "digits" if args.data is None else args.dataset
    notes = [f"{machine()}, of which each way uses one", f"Embeddings: {data}."]
    write_table(table, args.output, "alignment", notes)
    return table


if __name__ == "__main__":
    main()
