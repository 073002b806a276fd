"""The neighbour graph of points in shards: is it that of one process, and what does it cost?

Points lie on a surface of four dimensions in --features of them. `distributed_knn_graph` builds
their graph in 1, 2 and 4 processes, and each process compares its rows with those of `knn_graph`.
"order" says how points go to processes: at random, or by cells of k-means in the order of their
first principal axis, so that neighbours lie mostly in one process. The halo is the number of rows
that a process fetches for a term, over its own; "term" is a product of the graph's operator with 64
columns. Seconds are of the processor, of the busiest process; all share this machine's cores.

    export OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1
    python examples/benchmarks/shards.py
    python examples/benchmarks/shards.py --points 400000 --index ivf --orders cells
"""

import argparse
import itertools
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import pandas as pd
import torch
import torch.distributed as dist
from reporting import machine, write_table
from sklearn.cluster import MiniBatchKMeans
from torch import Tensor

from jsem_pyg.neighbors import knn_graph
from jsem_pyg.operators import laplacian_operator
from jsem_pyg.partition import DistributedGraph, distributed_knn_graph

K, CHANNELS, CELLS, REPEATS = 15, 64, 64, 5


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--index", nargs="+", default=["flat", "ivf"])
    parser.add_argument("--orders", nargs="+", default=["random", "cells"])
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    return parser.parse_args(argv)


def make_points(size: int, features: int, order: str) -> Tensor:
    """Points in an order of which each process takes a part."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(size, 4, generator=generator)
    x = (z @ torch.randn(4, features, generator=generator)).sin()
    if order == "random":
        return x
    model = MiniBatchKMeans(min(CELLS, size // 4), n_init=1, random_state=0).fit(x.numpy())
    centers = torch.from_numpy(model.cluster_centers_).to(x)
    first = torch.pca_lowrank(centers, q=1, niter=4)[0][:, 0].argsort().argsort()
    return x[first[torch.from_numpy(model.labels_).long()].argsort(stable=True)]


def run(rank: int, size: int, folder: str, args: argparse.Namespace) -> None:
    """Build this process's rows of every graph, compare them, and time a term."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/{size}", timedelta(minutes=30), size, rank)
    table = []
    for order, index in itertools.product(args.orders, args.index):
        x, edge_index, weight = torch.load(f"{folder}/{order}.pt", mmap=True)
        low, high = rank * len(x) // size, (rank + 1) * len(x) // size
        began = time.process_time()
        part = distributed_knn_graph(x[low:high].clone(), K, index=index)
        seconds = time.process_time() - began

        own = (edge_index[0] >= low) & (edge_index[0] < high)
        expected = edge_index[0][own] * len(x) + edge_index[1][own]
        found = (part.record.row + low) * len(x) + part.record.col
        apart = 1.0  # the largest difference of a weight, if edges are the same
        if torch.equal(found, expected):
            apart = float((part.data.edge_weight - weight[own]).abs().max())
        halo = part.halo.size / part.num_nodes
        largest = part.ranks.largest(torch.tensor([halo, seconds, term_seconds(part), apart]))
        shared = torch.isin(expected, found).sum()
        sums = torch.tensor([expected.numel(), found.numel(), int(shared)])
        table.append((order, index, size, largest.tolist(), part.ranks.total(sums).tolist()))
    if rank == 0:
        torch.save(table, f"{folder}/found-{size}.pt")
    dist.destroy_process_group()


def term_seconds(part: DistributedGraph) -> float:
    """The processor seconds of this process for a product, an exchange of rows before it."""
    matrix = laplacian_operator(part, part.data.edge_weight).matrix
    signal = torch.randn(part.num_nodes, CHANNELS)
    out = torch.zeros_like(signal)
    seconds = []
    for _ in range(REPEATS):
        dist.barrier()
        began = time.process_time()
        matrix.step(signal, out, out, 2)
        seconds.append(time.process_time() - began)
    return min(seconds)


def compare(args: argparse.Namespace) -> pd.DataFrame:
    table, alone = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for order in args.orders:
            x = make_points(args.points, args.features, order)
            began = time.process_time()
            edge_index, weight = knn_graph(x, K, connect=False, progress=False)
            alone[order] = time.process_time() - began
            torch.save((x, edge_index, weight), f"{folder}/{order}.pt")
        for size in args.processes:
            if size == 1:
                run(0, size, folder, args)
            else:
                torch.multiprocessing.spawn(run, (size, folder, args), nprocs=size)
            table += torch.load(f"{folder}/found-{size}.pt")
    return pd.DataFrame(
        [
            {
                "order": order,
                "index": index,
                "processes": size,
                "edges": found,
                "of one process's": f"{100 * shared / expected:.3f} %",
                "the same": apart < 1e-6,
                "CPU s": seconds,
                "knn_graph, CPU s": alone[order],
                "halo / rows": halo,
                "term, CPU ms": 1e3 * term,
            }
            for order, index, size, (halo, seconds, term, apart), (expected, found, shared) in table
        ]
    )


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    table = compare(args)
    about = f"{args.points:,} points, {args.features} features, k = {K}. {machine()}."
    write_table(table, args.output, "shards", ["# Neighbours of points in shards", about])
    return table


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
