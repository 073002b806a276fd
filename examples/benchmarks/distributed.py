"""What do several processes send, and how long does it take?

Two tables, on the graph of the nearest neighbours of random points in four dimensions:

- bytes: the halo of parts drawn at random, of halves along a breadth-first search and of METIS, and
  the bytes that all processes send in a term. Parts of one partition are joined into fewer.
- time: of the exchange, of a term (exchange and product), and of an epoch (forward, and backward in
  x, weights and t). Processes share the cores of this machine.

    python examples/benchmarks/distributed.py
    python examples/benchmarks/distributed.py --num-nodes 200000 1000000 --time-nodes 200000
"""

import argparse
import tempfile
import time
from datetime import timedelta

import pandas as pd
import torch
import torch.distributed as dist
from reporting import machine, parser_of, write_table
from scaling import random_edges
from torch_geometric.data import Data

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.operators import laplacian_operator
from jsem_pyg.partition import Partition, distribute, recursive_partition

PARTS = [2, 4, 8, 16, 64]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--num-nodes", type=int, nargs="+", default=[200_000])
    parser.add_argument("--time-nodes", type=int, default=50_000)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--terms", type=int, default=30)
    parser.add_argument("--processes", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--methods", nargs="+", default=["random", "bandwidth", "metis"])
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args(argv)


def make_parts(structure: GraphStructure, method: str, num_parts: int) -> Partition:
    size = structure.num_nodes
    if method == "random":
        order = torch.randperm(size, generator=torch.Generator().manual_seed(0))
        return Partition(order, torch.arange(num_parts + 1) * size // num_parts)
    return recursive_partition(structure, num_parts, method=method)


def count_bytes(structure: GraphStructure, method: str, args: argparse.Namespace) -> list[dict]:
    started = time.perf_counter()
    fine, rows = make_parts(structure, method, max(PARTS)), []
    seconds = time.perf_counter() - started
    of_fine, row, col = fine.part, structure.row.cpu().long(), structure.col.cpu().long()
    for num_parts in PARTS:
        part = of_fine * num_parts // max(PARTS)  # neighbouring parts are joined
        crosses = part[row] != part[col]
        # A pair of a part and a node outside that it needs: a row that travels.
        wanted = torch.unique(part[row[crosses]] * structure.num_nodes + col[crosses])
        by, owner = wanted // structure.num_nodes, part[wanted % structure.num_nodes]
        peers = torch.unique(by * num_parts + owner) // num_parts
        megabytes = args.channels * 4 / 1e6
        rows.append(
            {
                "nodes": structure.num_nodes,
                "parts": num_parts,
                "order": method,
                "halo / rows": wanted.numel() / structure.num_nodes,
                "peers": int(torch.bincount(peers, minlength=1).max()),
                "MB a term, all": wanted.numel() * megabytes,
                "MB a term, most": int(torch.bincount(owner, minlength=1).max()) * megabytes,
                "s to split into 64": seconds,
            }
        )
    return rows


def fastest(repeats: int, work) -> float:
    """The seconds of the fastest of a few calls, of the slowest process."""
    best = float("inf")
    for _ in range(repeats):
        dist.barrier()
        started = time.perf_counter()
        work()
        seconds = torch.tensor(time.perf_counter() - started)
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
        best = min(best, float(seconds))
    return best


def run(rank: int, size: int, folder: str, args: argparse.Namespace, method: str) -> None:
    """The measurements of one process; the first writes them."""
    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", meeting, timedelta(minutes=10), size, rank)
    edge_index, order, ptr = torch.load(f"{folder}/graph.pt")
    partition, num_nodes = Partition(order, ptr), args.time_nodes
    part = distribute(Data(edge_index=edge_index, num_nodes=num_nodes), partition)
    x = torch.randn(part.num_nodes, args.channels)
    weight = torch.ones(part.num_edges)
    matrix = laplacian_operator(part, weight).matrix
    out = torch.zeros_like(x)

    def epoch() -> None:
        leaves = [each.clone().requires_grad_() for each in (x, weight, torch.tensor(5.0))]
        y = heat_diffusion(leaves[0], part, *leaves[1:], degree=args.terms)
        y.backward(torch.ones_like(y))

    found = {
        "exchange": fastest(args.repeats, lambda: part.halo.append(x)),
        "term": fastest(args.repeats, lambda: matrix.step(x, out, out, 2)),
        "epoch": fastest(args.repeats, epoch),
    }
    if rank == 0:
        torch.save(found, f"{folder}/found.pt")
    dist.barrier()
    dist.destroy_process_group()


def measure_time(structure: GraphStructure, method: str, size: int, args) -> dict:
    """Start processes, and read what they measured."""
    with tempfile.TemporaryDirectory() as folder:
        partition = make_parts(structure, method, size)
        graph = torch.stack(structure.edges).flip(0)
        torch.save((graph, partition.order, partition.ptr), f"{folder}/graph.pt")
        torch.multiprocessing.spawn(run, (size, folder, args, method), nprocs=size)
        found = torch.load(f"{folder}/found.pt")
    return {
        "processes": size,
        "order": method,
        "exchange, ms": 1e3 * found["exchange"],
        "term, ms": 1e3 * found["term"],
        "epoch, s": found["epoch"],
    }


def main(argv: list[str] | None = None) -> tuple[pd.DataFrame, ...]:
    args = parse_args(argv)
    rows = []
    for num_nodes in args.num_nodes:
        structure = GraphStructure(random_edges(num_nodes), num_nodes)
        for method in args.methods:
            rows += count_bytes(structure, method, args)
    sent = pd.DataFrame(rows)
    about = f"D = {args.channels}, float32."
    write_table(sent, args.output, "distributed_bytes", ["# Bytes of a term", about])

    structure = GraphStructure(random_edges(args.time_nodes), args.time_nodes)
    taken = pd.DataFrame(
        [
            measure_time(structure, method, size, args)
            for size in args.processes
            for method in (args.methods[0], args.methods[-1])
        ]
    )
    about = (
        f"{args.time_nodes:,} nodes, {structure.num_edges:,} directed edges, D = {args.channels}, "
        f"K = {args.terms}, one thread a process. {machine()}."
    )
    write_table(taken, args.output, "distributed_time", ["# Processes on one machine", about])
    return sent, taken


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
