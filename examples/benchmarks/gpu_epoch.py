"""How long does one training epoch take on a GPU, and how far is that from what its memory allows?

An epoch is forward, and backward in x, the edge weights and t, in float32. Every way is checked
against the plain reference in float64 on eight columns before it is timed, by CUDA events, as the
median over repeats after a warm-up. The naive way is autograd over `torch.sparse.mm` on a COO
matrix, whose gradient in the values is a dense N x N product; it runs on the smaller graph only.

The limit is counted by hand: the bytes that have to move if every term is read once and written
once, whatever a neighbour's row costs beyond its first reading, divided by the bandwidth of a large
copy measured in the same run. With X the size of x, a term forward reads T_(k-1), T_(k-2) and Y and
writes T_k and Y (5 X); backward it reads B_(k+1), B_(k+2), T_(k+1), T_k and G, and writes two of
them (7 X); on top come 8 bytes an edge forward, and 16 backward.

    python examples/benchmarks/gpu_epoch.py --embeddings 20newsgroups_train_minilm.npz
    python examples/benchmarks/gpu_epoch.py --large-points 0     # the smaller graph only
"""

import argparse
import statistics
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from reporting import machine, write_table
from scaling import random_structure
from torch import Tensor
from training_epoch import Epoch, check, fused, load_points, naive, symmetric_part

from jsem_pyg.graph import GraphStructure, knn_graph
from jsem_pyg.kernels.table import CHEBYSHEV


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--embeddings", type=Path, help=".npz file of points x [N, D]")
    parser.add_argument("--num-points", type=int, default=11_314, help="of random points")
    parser.add_argument("--channels", type=int, default=384, help="of random points")
    parser.add_argument("--large-points", type=int, default=1_000_000, help="0: no larger graph")
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--degree", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--device", default="cuda", help="cpu only tries the script out")
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    args = parser.parse_args(argv)
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        raise SystemExit("This benchmark needs a CUDA device, and torch finds none.")
    return args


def run_epoch(epoch: Epoch, x: Tensor, weight: Tensor) -> list[Tensor]:
    leaves = [x.clone(), weight.clone(), torch.tensor(5.0)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    out = epoch(*leaves)
    out.backward(torch.ones_like(out))
    return [out.detach(), *(leaf.grad for leaf in leaves)]


def seconds(epoch: Epoch, x: Tensor, weight: Tensor, repeats: int) -> dict[str, float]:
    """Medians of the time forward and backward, apart."""
    leaves = [x.clone(), weight.clone(), torch.tensor(5.0)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    timings = []
    for repeat in range(repeats + 3):  # three to warm up, record and replay
        marks = [now(x)]
        out = epoch(*leaves)
        marks.append(now(x))
        torch.autograd.grad(out, leaves, torch.ones_like(out))
        marks.append(now(x))
        if repeat >= 3:
            timings.append([between(*pair) for pair in pairwise(marks)])
    forward, backward = (statistics.median(each) for each in zip(*timings, strict=True))
    return {
        "forward ms": 1e3 * forward,
        "backward ms": 1e3 * backward,
        "epoch ms": 1e3 * (forward + backward),
    }


def now(x: Tensor) -> torch.cuda.Event | float:
    if not x.is_cuda:
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between(first: torch.cuda.Event | float, second: torch.cuda.Event | float) -> float:
    if isinstance(first, float):
        return second - first
    second.synchronize()
    return first.elapsed_time(second) / 1e3


def bandwidth(device: str) -> float:
    """Bytes a second that a copy reads and writes."""
    source = torch.ones((1 << 28) if device != "cpu" else (1 << 22), device=device)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(5):
        start = now(source)
        target.copy_(source)
        best = min(best, between(start, now(source)))
    return 2 * source.numel() * source.element_size() / best


def limit(structure: GraphStructure, x: Tensor, degree: int, bytes_a_second: float) -> float:
    """The seconds that the counted traffic of an epoch takes; see the top of the file."""
    size = x.numel() * x.element_size()
    traffic = degree * (12 * size + 24 * structure.num_edges)
    return traffic / bytes_a_second


def ways(structure: GraphStructure, degree: int, device: torch.device, is_small: bool) -> dict:
    able = [name for name in CHEBYSHEV.backends if CHEBYSHEV.can_run(name, device)]
    # The reference stores a message for every edge, channel and term.
    found = {name: fused(structure, degree, name) for name in able if name != "reference"}
    if is_small:
        found["naive COO autograd"] = naive(structure, degree)
    return found


def measure(
    structure: GraphStructure, x: Tensor, weight: Tensor, args: argparse.Namespace, is_small: bool
) -> list[dict]:
    columns = x[:, :8].double()
    exact = run_epoch(fused(structure, args.degree, "reference"), columns, weight.double())
    best = limit(structure, x, args.degree, bandwidth(args.device))
    rows = []
    for name, epoch in ways(structure, args.degree, x.device, is_small).items():
        results = run_epoch(epoch, columns.float(), weight)
        check(name, symmetric_part(results, structure), [each.float() for each in exact])
        try:
            timing = seconds(epoch, x, weight, args.repeats)
        except torch.cuda.OutOfMemoryError:
            timing = dict.fromkeys(("forward ms", "backward ms", "epoch ms"), np.nan)
        rows.append({"way": name, "N": x.size(0), "D": x.size(1), **timing})
        rows[-1]["epoch / limit"] = timing["epoch ms"] / (1e3 * best)
        print(rows[-1], flush=True)
    slowest = rows[-1]["epoch ms"]
    return [row | {f"{rows[-1]['way']} / this": slowest / row["epoch ms"]} for row in rows]


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    x = load_points(args)
    edge_index, weight = knn_graph(x, args.k)
    structure = GraphStructure(edge_index.to(args.device), x.size(0))
    rows = measure(structure, x.to(args.device), weight.to(args.device), args, is_small=True)
    if args.large_points:
        pattern = random_structure(args.large_points)
        edge_index = torch.stack(pattern.edges).to(args.device)
        structure = GraphStructure(edge_index, args.large_points)
        x = torch.randn(args.large_points, 128, device=args.device)
        weight = torch.ones(structure.num_edges, device=args.device)
        rows += measure(structure, x, weight, args, is_small=False)
    table = pd.DataFrame(rows)
    device = "CPU" if args.device == "cpu" else torch.cuda.get_device_name()
    notes = [f"{device}, {machine()}", f"K = {args.degree}, t = 5, float32"]
    write_table(table, args.output, "gpu_epoch", notes)
    return table


if __name__ == "__main__":
    main()
