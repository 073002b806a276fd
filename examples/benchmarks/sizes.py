"""How do preparing, an epoch and its memory grow from a thousand to ten million nodes?

An epoch is forward, and backward in x, the edge weights and t, on the graph of the nearest
neighbours of random points in four dimensions, from the bare edges for the peak of memory. Its time
stands beside the least time that memory allows: the bytes that have to move, over the bandwidth of
a triad a = b + s c of arrays that no cache holds. Times are medians of wall clock and of the
processor; the latter is what to read on a machine that is not idle. A size that is in the table
already is not measured again, so a run can be broken off.

    python examples/benchmarks/sizes.py                                  # up to a million nodes
    python examples/benchmarks/sizes.py --nodes 10000000 --channels 16   # adds a row
"""

import argparse
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import torch
from numba import njit
from reporting import PeakMemory, Rows, exponent, machine, parser_of, write_table
from scaling import random_edges
from torch import Tensor

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.chebyshev.passes import num_lanes


def least_traffic(num_nodes: int, num_slots: int, channels: int, terms: int) -> int:
    """Bytes to and from memory of an epoch, if every neighbour were in a cache; float32.

    Of a tile and term, forward: T_(k-1) is read, T_(k-2) read and T_k written, a third of the
    result read and written, column and value of each edge read. Backward: that of B and of T, G
    read, and the gradients of half the edges read and written.
    """
    lanes = num_lanes(channels, torch.float32)
    num_tiles, tile = -(-channels // lanes), 4 * num_nodes * lanes
    forward = 3 * tile + 2 * tile // 3 + 8 * num_slots
    backward = (3 + 3 + 1) * tile + (8 + 4) * num_slots
    return num_tiles * terms * (forward + backward)


@njit(nogil=True)
def _triad(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    for i in range(a.size):
        a[i] = b[i] + np.float32(3) * c[i]


def bandwidth(size: int, threads: int) -> float:
    """Bytes a second of a = b + s c, as STREAM counts them: three arrays."""
    arrays = [np.array_split(np.ones(size, np.float32), threads) for _ in range(3)]
    times = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(6):
            started = time.perf_counter()
            list(pool.map(_triad, *arrays))
            times.append(time.perf_counter() - started)
    return 12 * size / min(times[1:])


def epoch(graph: GraphStructure | Tensor, x: Tensor, weight: Tensor, degree: int) -> dict:
    """Run one epoch: its seconds, and its peak of memory in bytes."""
    leaves = [leaf.clone().requires_grad_() for leaf in (x, weight, torch.tensor(5.0))]
    memory = PeakMemory()
    wall, cpu = time.perf_counter(), time.process_time()
    out = heat_diffusion(leaves[0], graph, *leaves[1:], degree=degree)
    out.backward(torch.ones_like(out))
    seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return {**seconds, "bytes": memory.stop()}


def measure(num_nodes: int, args: argparse.Namespace) -> dict[str, float]:
    edges = random_edges(num_nodes)
    weight = torch.ones(edges.size(1))
    x = torch.randn(num_nodes, args.channels, generator=torch.Generator().manual_seed(0))
    epoch(edges[:, :0], x[:9], weight[:0], args.degree)  # kernels compile, or are loaded
    bare = epoch(edges, x, weight, args.degree)
    structure = GraphStructure(edges, num_nodes)
    first = epoch(structure, x, weight, args.degree)
    runs = [epoch(structure, x, weight, args.degree) for _ in range(args.repeats)]
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
    parser = parser_of(__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10**e for e in range(3, 7)])
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--degree", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--stream-size", type=int, default=1 << 26, help="numbers in an array")
    args = parser.parse_args(argv)
    rows = Rows(args.output / "sizes.csv", "N", "D", "K")
    for num_nodes in sorted(args.nodes):
        if not rows.has(num_nodes, args.channels, args.degree):
            rows.add(measure(num_nodes, args))
    table = rows.table().sort_values(["N", "D", "K"], ignore_index=True)
    write_table(table, args.output, "sizes", notes(table))
    return table


if __name__ == "__main__":
    main()
