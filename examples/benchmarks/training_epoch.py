"""How long does one training epoch take: forward, and backward in x, the edge weights and t?

Each backend is compared with the naive way, autograd over `torch.sparse.mm` on a COO matrix, whose
gradient in the values is a dense N x N product. Answers are checked before anything is timed, and
ratios are of medians in the same run.

    python examples/benchmarks/training_epoch.py --embeddings 20newsgroups_train_minilm.npz
    python examples/benchmarks/training_epoch.py              # random points of the same size
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from jsem_pyg.diffusion import heat_coefficients, heat_diffusion
from jsem_pyg.graph import knn_graph
from jsem_pyg.kernels.dispatch import BACKENDS
from jsem_pyg.operators import GraphStructure

Epoch = Callable[[Tensor, Tensor, Tensor], Tensor]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--embeddings", type=Path, help=".npz file of points x [N, D]")
    parser.add_argument("--num-points", type=int, default=11_314, help="of random points")
    parser.add_argument("--channels", type=int, default=384, help="of random points")
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--degree", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--naive-repeats", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    return parser.parse_args(argv)


def load_points(args: argparse.Namespace) -> Tensor:
    if args.embeddings is None:
        return torch.randn(
            args.num_points, args.channels, generator=torch.Generator().manual_seed(0)
        )
    with np.load(args.embeddings, allow_pickle=False) as file:
        return F.normalize(torch.from_numpy(file["x"].astype("float32")))


def fused(structure: GraphStructure, degree: int, backend: str) -> Epoch:
    return lambda x, weight, t: heat_diffusion(
        x, structure, weight, t, degree=degree, backend=backend
    )


def naive(structure: GraphStructure, degree: int) -> Epoch:
    """The recurrence written down with `torch.sparse.mm`, left to autograd."""
    target, source = structure.edges
    size = structure.num_nodes

    def run(x: Tensor, weight: Tensor, t: Tensor) -> Tensor:
        root = torch.zeros(size).index_add(0, target, weight).rsqrt()
        values = root[target] * weight * root[source]
        s = torch.sparse_coo_tensor(torch.stack([target, source]), values, (size, size))
        coefficients = heat_coefficients(t, degree).float()
        before, term = x, torch.sparse.mm(s, x)
        out = coefficients[0] * before + coefficients[1] * term
        for k in range(2, degree + 1):
            before, term = term, 2 * torch.sparse.mm(s, term) - before
            out = out + coefficients[k] * term
        return out

    return run


def measure(epoch: Epoch, x: Tensor, weight: Tensor) -> tuple[list[Tensor], float, float]:
    """Run one epoch: the results, and the seconds forward and backward."""
    leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    leaves.append(torch.tensor(5.0, requires_grad=True))
    started = time.perf_counter()
    out = epoch(*leaves)
    half_way = time.perf_counter()
    out.square().sum().backward()
    finished = time.perf_counter()
    gradients = [leaf.grad for leaf in leaves]
    return [out.detach(), *gradients], half_way - started, finished - half_way


def symmetric_part(results: list[Tensor], structure: GraphStructure) -> list[Tensor]:
    """Give both directions of an edge the mean of their gradients, as heat_diffusion does."""
    slots = structure.to_slots(results[2])
    mean = structure.to_edges((slots + slots[structure.reverse]) / 2)
    return [*results[:2], mean, results[3]]


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    x = load_points(args)
    edge_index, weight = knn_graph(x, args.k)
    structure = GraphStructure(edge_index, x.size(0))
    able = [name for name, each in BACKENDS.items() if each.obstacle(x.device) is None]
    # The reference stores a message for every edge, channel and term: too much at this size.
    epochs = {name: fused(structure, args.degree, name) for name in able if name != "reference"}
    epochs["naive COO autograd"] = naive(structure, args.degree)

    expected = None
    rows = {}
    for name, epoch in epochs.items():
        is_naive = name.startswith("naive")
        results, *first = measure(epoch, x, weight)
        if is_naive:
            results = symmetric_part(results, structure)
        expected = expected or results
        for actual, wanted in zip(results, expected, strict=True):
            error = float((actual - wanted).norm() / wanted.norm())
            if error > 1e-4:
                raise AssertionError(f"{name} disagrees: a relative error of {error:.2g}.")
        # The first run warms up, except of the naive way, which takes too long to repeat by habit.
        repeats = args.naive_repeats - 1 if is_naive else args.repeats
        timings = [tuple(first)] if is_naive else []
        timings += [measure(epoch, x, weight)[1:] for _ in range(repeats)]
        forward, backward = (statistics.median(each) for each in zip(*timings, strict=True))
        rows[name] = {"forward s": forward, "backward s": backward, "epoch s": forward + backward}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("backend")
    table["naive / this"] = table["epoch s"].iloc[-1] / table["epoch s"]
    report(table, args, edge_index, x)
    return table


def report(table: pd.DataFrame, args: argparse.Namespace, edge_index: Tensor, x: Tensor) -> None:
    args.output.mkdir(parents=True, exist_ok=True)
    table.to_csv(args.output / "training_epoch.csv")
    print(
        f"N = {x.size(0)}, D = {x.size(1)}, {edge_index.size(1)} directed edges, "
        f"K = {args.degree}, float32; {platform.processor() or platform.machine()}, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"Python {platform.python_version()}"
    )
    lines = ["| backend | " + " | ".join(table.columns) + " |", "| --- " * 5 + "|"]
    for name, row in table.iterrows():
        lines.append(f"| {name} | " + " | ".join(f"{value:.3g}" for value in row) + " |")
    (args.output / "training_epoch.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
