"""How do time and memory of a training epoch grow with the graph, the columns, terms and scales?

An epoch is forward, and backward in x, the edge weights and t, on the graph of the nearest
neighbours of random points in four dimensions. Answers are checked first: all backends against the
first one, on a slice of the columns. Preparing is sorting and checking the edges and ordering the
rows, once for a graph: what a first product takes beyond a second one. Peak memory is the resident
memory during an epoch that starts from the bare edges, beyond that before it, sampled every 2 ms
after a warm-up, in multiples of the size of x ("copies of x").

    python examples/benchmarks/scaling.py                      # up to 200,000 nodes
    python examples/benchmarks/scaling.py --max-nodes 1000000
"""

import argparse
import statistics
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.ticker import NullFormatter
from reporting import PeakMemory, exponent, machine, write_table
from sklearn.neighbors import kneighbors_graph
from torch import Tensor

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure

SIZES = [1_000, 3_000, 10_000, 30_000, 100_000, 200_000, 500_000, 1_000_000]
CHANNELS, DEGREES, SCALES = [16, 64, 128, 512], [5, 15, 30, 60, 120], [1, 2, 4, 8, 16]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--max-nodes", type=int, default=200_000)
    parser.add_argument("--num-nodes", type=int, default=20_000, help="where N does not vary")
    parser.add_argument("--neighbours", type=int, default=15)
    parser.add_argument("--backends", nargs="+", default=["numba", "torch"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    return parser.parse_args(argv)


def random_edges(num_nodes: int, neighbours: int = 15) -> Tensor:
    points = np.random.default_rng(0).normal(size=(num_nodes, 4))
    directed = kneighbors_graph(points, min(neighbours, num_nodes - 1), n_jobs=-1)
    edges = directed.maximum(directed.T).tocoo()
    return torch.from_numpy(np.stack([edges.row, edges.col])).long()


def random_structure(num_nodes: int) -> GraphStructure:
    return GraphStructure(random_edges(num_nodes), num_nodes)


def preparation(edge_index: Tensor, num_nodes: int, backend: str) -> float:
    """Seconds that the first product with a graph takes beyond the second one."""
    x, options = torch.ones(num_nodes, 1), {"t": 1e-3, "degree": 1, "backend": backend}
    started = time.perf_counter()
    structure = GraphStructure(edge_index, num_nodes)
    heat_diffusion(x, structure, **options)
    prepared = time.perf_counter()
    heat_diffusion(x, structure, **options)
    return 2 * prepared - started - time.perf_counter()


def epoch(graph: GraphStructure | Tensor, x: Tensor, t: Tensor, degree: int, backend: str) -> dict:
    """Run one epoch: its results, seconds, and peak memory in copies of x."""
    count = graph.num_edges if isinstance(graph, GraphStructure) else graph.size(1)
    leaves = [leaf.requires_grad_() for leaf in (x.clone(), torch.ones(count), t.clone())]
    memory = PeakMemory()
    started = time.perf_counter()
    out = heat_diffusion(leaves[0], graph, *leaves[1:], degree=degree, backend=backend)
    out.backward(torch.ones_like(out))
    seconds = time.perf_counter() - started
    copies = memory.stop() / (x.numel() * x.element_size())
    results = [out.detach(), *(leaf.grad for leaf in leaves)]
    return {"results": results, "s": seconds, "copies": copies}


def check(structure: GraphStructure, t: Tensor, degree: int, backends: list[str]) -> None:
    x = torch.randn(structure.num_nodes, 8, generator=torch.Generator().manual_seed(1))
    expected = epoch(structure, x, t, degree, backends[0])["results"]
    for backend in backends[1:]:
        for actual, wanted in zip(
            epoch(structure, x, t, degree, backend)["results"], expected, strict=True
        ):
            error = float((actual - wanted).norm() / wanted.norm())
            if not error <= 1e-3:
                raise AssertionError(f"{backend} and {backends[0]} disagree: {error:.2g}.")


def measure(
    edge_index: Tensor, num_nodes: int, args: argparse.Namespace, varied: str, **case: int
) -> list:
    structure = GraphStructure(edge_index, num_nodes)
    settings = {"D": 128, "K": 30, "scales": 1} | case
    t = torch.linspace(5.0, 1.0, settings["scales"])
    x = torch.randn(structure.num_nodes, settings["D"], generator=torch.Generator().manual_seed(0))
    check(structure, t, settings["K"], args.backends)
    rows = []
    for backend in args.backends:
        epoch(structure, x, t, settings["K"], backend)  # warm-up
        runs = [epoch(structure, x, t, settings["K"], backend) for _ in range(args.repeats)]
        raw = epoch(edge_index, x, t, settings["K"], backend)
        once = [preparation(edge_index, num_nodes, backend) for _ in range(args.repeats)]
        seconds = statistics.median(run["s"] for run in runs)
        rows.append(
            {"varied": varied, "backend": backend, "N": structure.num_nodes}
            | {"edges": structure.num_edges, **settings}
            | {"epoch s": seconds, "prepare / epoch": statistics.median(once) / seconds}
            | {"copies of x": max(run["copies"] for run in runs)}
            | {"with preparing": raw["copies"]}
        )
        print(", ".join(f"{key} = {value}" for key, value in rows[-1].items()), flush=True)
    return rows


def exponents(table: pd.DataFrame) -> dict[str, float]:
    """Of time in the number of edges, from 100,000 nodes on where there are that many."""
    found = {}
    for backend, rows in table[table["varied"] == "N"].groupby("backend"):
        large = rows[rows["N"] >= 100_000] if (rows["N"] >= 100_000).sum() > 1 else rows
        found[str(backend)] = exponent(large["edges"], large["epoch s"])
    return found


def draw(table: pd.DataFrame) -> plt.Figure:
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.5), layout="constrained")
    for axis, varied in zip(axes, ("N", "D", "K", "scales"), strict=True):
        for backend, rows in table[table["varied"] == varied].groupby("backend"):
            axis.plot(rows[varied], rows["epoch s"], marker="o", label=backend)
        axis.set(xscale="log", yscale="log", xlabel=varied, ylabel="seconds an epoch")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.yaxis.set_minor_formatter(NullFormatter())
        axis.legend()
    return figure


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    rows = []
    for size in (size for size in SIZES if size <= args.max_nodes):
        rows += measure(random_edges(size, args.neighbours), size, args, "N")
    middle = random_edges(args.num_nodes, args.neighbours)
    for varied, values in (("D", CHANNELS), ("K", DEGREES), ("scales", SCALES)):
        for value in values:
            rows += measure(middle, args.num_nodes, args, varied, **{varied: value})
    table = pd.DataFrame(rows)
    slopes = (f"exponent of time in edges, {n}: {e:.2f}" for n, e in exponents(table).items())
    write_table(table, args.output, "scaling", [f"{machine()}, float32", *slopes])
    figure = draw(table)
    figure.savefig(args.output / "scaling.png", dpi=150)
    plt.close(figure)
    return table


if __name__ == "__main__":
    main()
