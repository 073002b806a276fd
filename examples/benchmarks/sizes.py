"""How do preparing, an epoch and its memory grow from a thousand to ten million nodes?

An epoch is forward, and backward in x, the edge weights and t, on the graph of the nearest
neighbours of random points in four dimensions, from the bare edges for the peak of memory. Its time
stands beside the least time that memory allows: the bytes that have to move, counted by
`large_graphs.least_traffic`, over the bandwidth of a triad measured in the same run. Times are
medians of wall clock and of the processor; the latter is what to read on a machine that is not
idle. A size that is in the table already is not measured again, so a run can be broken off.

    python examples/benchmarks/sizes.py                                  # up to a million nodes
    python examples/benchmarks/sizes.py --nodes 10000000 --channels 16   # adds a row
"""

import argparse
import statistics
import time
from pathlib import Path

import pandas as pd
import torch
from large_graphs import bandwidth, least_traffic
from reporting import PeakMemory, exponent, machine, write_table
from scaling import random_edges
from torch import Tensor

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure

CASE = ["N", "D", "K"]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[10**e for e in range(3, 7)])
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--degree", type=int, default=30)
    parser.add_argument("--neighbours", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--stream-size", type=int, default=1 << 26, help="numbers in an array")
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    return parser.parse_args(argv)


def epoch(
    graph: GraphStructure | Tensor, x: Tensor, weight: Tensor, degree: int, backend: str
) -> dict[str, float]:
    """Run one epoch: its seconds, and its peak of memory in bytes."""
    leaves = [leaf.clone().requires_grad_() for leaf in (x, weight, torch.tensor(5.0))]
    memory = PeakMemory()
    wall, cpu = time.perf_counter(), time.process_time()
    out = heat_diffusion(leaves[0], graph, *leaves[1:], degree=degree, backend=backend)
    out.backward(torch.ones_like(out))
    seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return {**seconds, "bytes": memory.stop()}


def measure(num_nodes: int, args: argparse.Namespace) -> dict[str, float]:
    edges = random_edges(num_nodes, args.neighbours)
    weight = torch.ones(edges.size(1))
    x = torch.randn(num_nodes, args.channels, generator=torch.Generator().manual_seed(0))
    options = args.degree, args.backend
    small = edges[:, :0]
    epoch(small, x[:9], weight[:0], *options)  # kernels compile, or are loaded
    bare = epoch(edges, x, weight, *options)
    structure = GraphStructure(edges, num_nodes)
    first = epoch(structure, x, weight, *options)
    runs = [epoch(structure, x, weight, *options) for _ in range(args.repeats)]
    wall, cpu = (statistics.median(run[clock] for run in runs) for clock in ("wall", "cpu"))
    traffic = least_traffic(num_nodes, edges.size(1), args.channels, args.degree)
    least = traffic / bandwidth(args.stream_size, torch.get_num_threads())
    size = x.numel() * x.element_size()
    return {
        **{"N": num_nodes, "D": args.channels, "K": args.degree, "edges": edges.size(1)},
        **{"prepare cpu s": max(first["cpu"] - cpu, 0.0), "epoch cpu s": cpu, "epoch s": wall},
        **{"counted GB": traffic / 1e9, "cpu s / counted": cpu / least},
        **{"copies of x": max(run["bytes"] for run in runs) / size},
        **{"copies from bare edges": bare["bytes"] / size, "peak GB": bare["bytes"] / 1e9},
    }


def notes(table: pd.DataFrame) -> list[str]:
    """The head of the page; exponents are of the columns that most rows have."""
    lines = [
        "# Time and memory by the number of nodes",
        "`python examples/benchmarks/sizes.py`: forward, and backward in x, the edge weights and "
        "t, float32, on nearest neighbours of random points in four dimensions. `counted GB` is "
        "the least that has to move to and from memory, and `cpu s / counted` the processor time "
        "of an epoch over the time of that at the bandwidth of a triad, which is by wall clock and "
        f"so falls where other work runs beside: read that column on an idle machine. {machine()}.",
    ]
    for (columns, degree), rows in table.groupby(["D", "K"]):
        large = rows[rows["N"] >= 10**4] if (rows["N"] >= 10**4).sum() > 1 else rows
        if len(large) > 1:
            slope = exponent(large["edges"], large["epoch cpu s"])
            lines.append(
                f"{columns} columns, K = {degree}: an epoch grows as edges^{slope:.2f} from "
                f"{large['N'].min():,} to {large['N'].max():,} nodes."
            )
    return lines


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    path = args.output / "sizes.csv"
    table = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=CASE)
    for num_nodes in sorted(args.nodes):
        case = [num_nodes, args.channels, args.degree]
        if case in table[CASE].to_numpy().tolist():
            continue
        row = pd.DataFrame([measure(num_nodes, args)])
        table = pd.concat([table, row]) if len(table) else row
        table = table.sort_values(CASE, ignore_index=True)
        write_table(table, args.output, "sizes", notes(table))
    return table


if __name__ == "__main__":
    main()
