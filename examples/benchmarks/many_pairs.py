"""How well, and how fast, are many pairs of small graphs aligned at once?

Half of the pairs are copies with their nodes in another order, whose squared Gromov-Wasserstein
discrepancy is zero; the others are independent. Costs are shortest paths in random connected graphs
("graphs") or squared distances in clouds of random points ("clouds"). POT goes through the pairs in
a loop: `gromov_wasserstein` (conditional gradient), and its proximal point method where asked, on
fewer pairs, since it takes minutes. All plans are rounded onto their marginals (Altschuler, Weed
and Rigollet 2017) in float64 before their costs are compared. Times are CPU seconds, the least of
`--repeats`, which take turns; run it with OMP_NUM_THREADS=1.

    OMP_NUM_THREADS=1 python examples/benchmarks/many_pairs.py
    OMP_NUM_THREADS=1 python examples/benchmarks/many_pairs.py --proximal 40
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import ot
import pandas as pd
import torch
from reporting import machine, write_table
from scipy.sparse.csgraph import connected_components, shortest_path
from torch import Tensor

from jsem_pyg.transport import batch_gromov_wasserstein
from jsem_pyg.transport.sinkhorn.dense import round_to_marginals

Pairs = tuple[list[np.ndarray], list[np.ndarray], np.ndarray]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--sizes", type=int, nargs=2, default=[5, 25])
    parser.add_argument("--proximal", type=int, default=0, help="pairs for POT's proximal method")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    return parser.parse_args(argv)


def path_costs(size: int, draw: np.random.Generator) -> np.ndarray:
    """Shortest paths in the largest component of an Erdos-Renyi graph of mean degree three."""
    edges = np.triu(draw.random((size, size)) < 3 / size, 1)
    _, part = connected_components(edges, directed=False)
    kept = part == np.bincount(part).argmax()
    return shortest_path(edges[np.ix_(kept, kept)], directed=False, unweighted=True)


def cloud_costs(size: int, draw: np.random.Generator) -> np.ndarray:
    points = draw.normal(size=(size, 3))
    return ((points[:, None] - points) ** 2).sum(-1)


CASES = {"graphs": path_costs, "clouds": cloud_costs}


def make(args: argparse.Namespace, case: str) -> Pairs:
    """Costs of either side, and which pairs are copies."""
    draw = np.random.default_rng(args.seed)
    low, high = args.sizes
    first, second = [], []
    for pair in range(args.pairs):
        own, other = (CASES[case](draw.integers(low, high + 1), draw) for _ in range(2))
        if pair % 2 == 0:
            order = draw.permutation(len(own))
            other = own[np.ix_(order, order)]
        first.append(own)
        second.append(other)
    return first, second, np.arange(args.pairs) % 2 == 0


def pot(solve: Callable[..., np.ndarray]) -> Callable[..., list[np.ndarray]]:
    def loop(first: list[np.ndarray], second: list[np.ndarray]) -> list[np.ndarray]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [solve(c, d) for c, d in zip(first, second, strict=True)]

    return loop


def proximal(c: np.ndarray, d: np.ndarray) -> np.ndarray:
    temperature = 0.1 * max(c.max(), d.max())
    return ot.gromov.entropic_gromov_wasserstein(c, d, epsilon=temperature, solver="PPA")


def ours(num_starts: int, steps: int) -> Callable[..., list[np.ndarray]]:
    def run(first: list[np.ndarray], second: list[np.ndarray]) -> list[np.ndarray]:
        sides: list[list[Tensor]] = [
            [torch.from_numpy(each).float() for each in side] for side in (first, second)
        ]
        starts = ["costs", "zero", *["random"] * num_starts][:num_starts]
        plans = batch_gromov_wasserstein(*sides, cost="matrix", starts=starts, max_iter=steps)
        return [plan.dense().double().numpy() for plan in plans]

    return run


WAYS = {
    "POT, loop of gromov_wasserstein": pot(ot.gromov.gromov_wasserstein),
    "1 start, 10 steps": ours(1, 10),
    "2 starts": ours(2, 20),
    "4 starts": ours(4, 20),
    "8 starts, 40 steps": ours(8, 40),
}


def measure(c: np.ndarray, d: np.ndarray, plan: np.ndarray) -> tuple[float, float]:
    """The squared discrepancy of a plan with its marginals put right, and how wrong they were."""
    p, q = np.full(len(c), 1 / len(c)), np.full(len(d), 1 / len(d))
    error = np.abs(plan.sum(1) - p).sum() + np.abs(plan.sum(0) - q).sum()
    plan = round_to_marginals(*map(torch.from_numpy, (plan, p, q))).numpy()
    cost = p @ c**2 @ p + q @ d**2 @ q - 2 * ((c @ plan @ d) * plan).sum()
    return float(cost), float(error)


def compare(args: argparse.Namespace, case: str) -> list[dict[str, object]]:
    first, second, is_copy = make(args, case)
    ways: dict[str, tuple[Callable[..., list[np.ndarray]], int]] = {
        name: (run, args.pairs) for name, run in WAYS.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    plans = {}
    for run, _ in ways.values():
        run(first, second)  # compiles, and warms up
    for _ in range(args.repeats):
        for name, (run, _) in ways.items():
            started = time.process_time()
            plans[name] = run(first, second)
            seconds[name].append(time.process_time() - started)
    if args.proximal:
        name = "POT, loop of proximal point"
        ways[name] = (pot(proximal), args.proximal)
        started = time.process_time()
        plans[name] = ways[name][0](first[: args.proximal], second[: args.proximal])
        seconds[name] = [time.process_time() - started]
    baseline = min(seconds["POT, loop of gromov_wasserstein"])
    rows = []
    for name, (_, count) in ways.items():
        measured = [measure(*each) for each in zip(first, second, plans[name], strict=False)]
        cost, error = (np.array(each) for each in zip(*measured, strict=True))
        copies = is_copy[:count]
        found = cost[copies] < 1e-4 * np.median(cost[~copies])
        spent = min(seconds[name]) / count * args.pairs
        rows.append(
            {"case": case, "way": name, "pairs": count, "mean GW^2": cost.mean()}
            | {"of others": cost[~copies].mean(), "copies found": found.mean()}
            | {"marginal error": error.max(), "s (all pairs)": spent, "ratio": spent / baseline}
        )
    return rows


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    table = pd.DataFrame([row for case in CASES for row in compare(args, case)])
    write_table(table, args.output, "many_pairs", [machine()])
    return table


if __name__ == "__main__":
    main()
