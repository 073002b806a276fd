"""How fast are filters, beside the layers and functions that people use for the same?

The neighbour graph of a data set; one thread, all in turn, in seconds of the processor.
APPNP(K=10) is compared with a filter that gives the same numbers: its polynomial of degree ten.

    python examples/benchmarks/filters.py                # a small random cloud
    python examples/benchmarks/filters.py --embeddings 20newsgroups_train_minilm.npz \
        --output examples/results
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from reporting import machine, write_table
from scipy.sparse.linalg import expm_multiply as scipy_expm_multiply
from torch import Tensor
from torch_geometric.nn import APPNP, ChebConv, SSGConv

from jsem_pyg.diffusion import diffuse, expm_multiply
from jsem_pyg.diffusion.filters import Filter, FromFunction, PersonalizedPageRank
from jsem_pyg.graph import GraphStructure, knn_graph
from jsem_pyg.operators import laplacian_operator

ALPHA, STEPS, TIME = 0.1, 10, 5.0


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--embeddings", type=Path, help=".npz file of points x [N, D]")
    parser.add_argument("--num-points", type=int, default=2000, help="of random points")
    parser.add_argument("--channels", type=int, default=64, help="of random points")
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    return parser.parse_args(argv)


def load_points(args: argparse.Namespace) -> Tensor:
    if args.embeddings is None:
        generator = torch.Generator().manual_seed(0)
        return torch.randn(args.num_points, args.channels, generator=generator)
    with np.load(args.embeddings, allow_pickle=False) as file:
        return torch.nn.functional.normalize(torch.from_numpy(file["x"].astype("float32")))


def appnp_polynomial() -> Filter:
    """What APPNP computes in K steps, as a function of the eigenvalue."""

    def response(eigenvalue: Tensor) -> Tensor:
        s, out = 1 - eigenvalue, torch.ones_like(eigenvalue)
        for _ in range(STEPS):
            out = (1 - ALPHA) * s * out + ALPHA
        return out

    return FromFunction(response)


def forward_backward(run: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], Tensor]:
    def call() -> Tensor:
        leaf = x.clone().requires_grad_()
        out = run(leaf)
        out.sum().backward()
        return out.detach()

    return call


def medians(calls: dict[str, Callable[[], Tensor]], repeats: int) -> dict[str, float]:
    """Seconds of each, called in turn; the first call compiles and prepares."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            start = time.process_time()
            call()
            if turn > 0:
                taken[name].append(time.process_time() - start)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def compare(x: Tensor, k: int, repeats: int) -> pd.DataFrame:
    size, channels = x.shape
    edge_index, _ = knn_graph(x, k)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], 1).unique(dim=1)
    loops = torch.arange(size).expand(2, -1)
    looped = torch.cat([edge_index, loops], 1)  # gcn_norm adds loops, as self_loop=1
    operator = laplacian_operator(GraphStructure(edge_index, size), self_loop=1.0)
    degree = torch.bincount(looped[0], minlength=size).float()
    value = (degree[looped[0]] * degree[looped[1]]).rsqrt().double().numpy()
    matrix = scipy.sparse.csr_array((value, looped.numpy()), (size, size))
    minus_l = TIME * (matrix - scipy.sparse.eye_array(size)).tocsr()
    trace, columns = minus_l.trace(), x.numpy().astype(np.float64)
    # The layers of channels: their linear maps are left out.
    adjacency = torch.sparse_coo_tensor(edge_index, torch.ones(edge_index.size(1)), (size, size))
    adjacency = adjacency.coalesce().to_sparse_csr()
    appnp, sparse = (APPNP(STEPS, ALPHA, cached=True) for _ in range(2))
    ssg = SSGConv(channels, channels, 0.1, STEPS)
    ssg.lin = torch.nn.Identity()
    cheb = ChebConv(channels, channels, STEPS + 1)
    for each in cheb.lins:
        each.requires_grad_(False)
    ours, limit = appnp_polynomial(), PersonalizedPageRank(ALPHA)
    trained = {
        "APPNP(K=10)": lambda v: appnp(v, edge_index),
        "APPNP(K=10), sparse adjacency": lambda v: sparse(v, adjacency),
        "SSGConv(K=10), no map": lambda v: ssg(v, edge_index),
        "ChebConv(K=11), with its maps": lambda v: cheb(v, edge_index),
        "our filter, the same polynomial": lambda v: diffuse(v, operator, ours),
        "our PersonalizedPageRank, tol 1e-6": lambda v: diffuse(v, operator, limit),
    }
    forward = {
        "SciPy expm_multiply": lambda: torch.from_numpy(
            scipy_expm_multiply(minus_l, columns, traceA=trace)
        ),
        "our expm_multiply, from bare SciPy": lambda: torch.from_numpy(
            expm_multiply(minus_l, columns)
        ),
        "our diffuse, t = 5": lambda: diffuse(x, operator, TIME),
    }
    both = {name: forward_backward(run, x) for name, run in trained.items()}
    rows = []
    for part, calls in (("forward + backward", both), ("forward, exponential", forward)):
        seconds, base = medians(calls, repeats), next(iter(calls))
        exact = calls[base]().double()
        for name, call in calls.items():
            alike = (
                name.startswith(("our filter", "APPNP(K=10), sparse"))
                or part != "forward + backward"
            )
            error = float((call().double() - exact).norm() / exact.norm()) if alike else np.nan
            speed = seconds[base] / seconds[name]
            rows.append((part, name, round(seconds[name], 4), speed, base, error))
    names = ["what", "way", "s", "times as fast", "as", "relative difference"]
    return pd.DataFrame(rows, columns=names)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        x = load_points(args)
        table = compare(x, args.k, args.repeats)
        notes = [
            "# Filters beside other libraries",
            f"`python examples/benchmarks/filters.py`: {x.size(0):,} points of {x.size(1)} "
            f"channels, graph of {args.k} neighbours, medians of {args.repeats} calls in turn, in "
            f"seconds of the processor. APPNP keeps its normalisation from call to call, and our "
            f"operator is made once. {machine()}.",
        ]
        write_table(table, args.output, "filters", notes)
    finally:
        torch.set_num_threads(threads)
    return table


if __name__ == "__main__":
    main()
