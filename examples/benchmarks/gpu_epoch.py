"""The first minutes on a GPU: are all Triton kernels right, and how fast is an epoch?

Eight parts, each in a process of its own with a limit of time, less than six minutes together. What
fails is written down with the last line of its error, and the others run; the page is written anew
after each part.

- `correct`: values and gradients of every Triton family against its reference.
- `newsgroups`: an epoch, forward and backward in x, the edge weights and t, on the graph of 20
  Newsgroups, beside the same recurrence by cuSPARSE (torch's CSR products), torch-sparse where it
  is installed, and PyG's ChebConv with as many terms. Every way of ours is checked on a few columns
  before it is timed by events, as the median over repeats.
- `series`: the series and its gradients with S given, and the same by cuSPARSE.
- `steps`: a training step of the layers (forward and backward, many in a row without a wait of this
  script) by Triton and by torch, which are compared before they are timed.
- `million`: an epoch with a million nodes and 128 channels.
- `panels`: `diffuse_file(device=)`, panels of columns from a file through the GPU, with one and
  with two on their way.
- `relations`: a step of convolutions with relations beside PyG's RGCNConv.
- `alignment`: 20,000 points of a spiral to 25,000 of a Swiss roll.

`epoch / limit` is over the time that the bytes take which have to move if every term is read once
and written once: 12 copies of x and 24 bytes an edge for each term, over the bandwidth of a large
copy in the same process.

    python examples/benchmarks/gpu_epoch.py --embeddings 20newsgroups_train_minilm.npz
    python examples/benchmarks/gpu_epoch.py --rehearse    # all of it, tiny, in Triton's interpreter
"""

import argparse
import json
import logging
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

if "--rehearse" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # which Triton reads when it is imported

import alignment
import pandas as pd
import torch
from gpu_layers import gradients_of, panels, relations, steps, training_layer
from gpu_series import cusparse, series
from gpu_timing import (
    Note,
    bandwidth,
    between,
    error,
    last_line,
    now,
    peak,
    run_epoch,
    seconds,
    too_large,
)
from reporting import machine, write_table
from scaling import random_structure
from torch import Tensor
from torch_geometric.nn import ChebConv
from training_epoch import Epoch, fused, load_points, symmetric_part

from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.table import CHEBYSHEV, SINKHORN
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.transport import GeodesicCost, gromov_wasserstein

LIMITS = {  # seconds
    "correct": 70,
    "newsgroups": 45,
    "series": 50,
    "steps": 35,
    "million": 100,
    "panels": 15,
    "relations": 20,
    "alignment": 20,
}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--embeddings", type=Path, help=".npz file of points x [N, D]")
    parser.add_argument("--num-points", type=int, default=11_314, help="of random points")
    parser.add_argument("--channels", type=int, default=384, help="of random points")
    parser.add_argument("--large-points", type=int, default=1_000_000)
    parser.add_argument("--large-channels", type=int, default=128)
    parser.add_argument("--align", default="20000x25000")
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--degree", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--parts", nargs="+", choices=list(LIMITS), default=list(LIMITS))
    parser.add_argument("--rehearse", action="store_true", help="everything small, on the CPU")
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    args = parser.parse_args(argv)
    args.device = "cpu" if args.rehearse else "cuda"
    if args.rehearse:
        args.num_points, args.channels, args.k, args.degree = 9, 3, 2, 2
        args.large_points, args.large_channels, args.align, args.repeats = 12, 3, "20x24", 1
    return args


# The parts.


def scores(rows: int, columns: int, rank: int, bits: float) -> tuple[Tensor, ...]:
    """Those of -bits |x - y|^2 for points of a curve in `rank` - 1 dimensions, sorted along it."""
    generator = torch.Generator().manual_seed(0)

    def points(count: int) -> Tensor:
        along = torch.rand(count, generator=generator).sort().values[:, None]
        angle = along * torch.linspace(0.5, 3, rank - 1) * 3
        return angle.sin() / (rank - 1) ** 0.5

    x, y = points(rows), points(columns)
    u = torch.cat([2 * bits * x, torch.full((rows, 1), -bits)], 1)
    v = torch.cat([y, y.square().sum(1, keepdim=True)], 1)
    log2_p = torch.full((rows,), 1 / rows).log2()
    return u, v, torch.zeros(columns), log2_p, v


def correct(args: argparse.Namespace, note: Note) -> None:
    """Every Triton family against its reference, in both precisions."""
    size = 9 if args.rehearse else 3000
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size, 3 if args.rehearse else 67, generator=generator)
    edge_index, weight = knn_graph(x, args.k)
    structure = GraphStructure(edge_index.to(args.device), size)
    for dtype, tol in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
        given = x.to(args.device, dtype), weight.to(args.device, dtype)

        def epoch(way: str, given: tuple = given) -> list[Tensor]:
            found = run_epoch(fused(structure, args.degree, way), *given)
            return symmetric_part(found, structure)

        def step(way: str, given: tuple = given, dtype: torch.dtype = dtype) -> list[Tensor]:
            layer = training_layer("convolution", x.size(1), args, backend=way).to(dtype)
            return gradients_of(layer, given[0], structure, given[1], given[1].unsqueeze(-1))

        for kind, run in (("Chebyshev series", epoch), ("a convolution", step)):
            wanted = run("reference")
            largest = max(error(*pair) for pair in zip(run("triton"), wanted, strict=True))
            note(way=f"{kind}, {dtype}", error=largest, failed=too_large(largest, tol))
    shape = (5, 7, 3) if args.rehearse else (2000, 2500, 33)
    for dtype, tol in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
        case = [each.to(args.device, dtype) for each in scores(*shape, 30.0)]
        modules = (SINKHORN.find(way, torch.device(args.device)) for way in ("triton", "torch"))
        found, wanted = (module.sinkhorn_pass(*case) for module in modules)
        largest = max(error(*pair) for pair in zip(found, wanted, strict=True))
        note(way=f"Sinkhorn pass, {dtype}", error=largest, failed=too_large(largest, tol))


def cheb_conv(structure: GraphStructure, channels: int, degree: int) -> Epoch:
    """PyG's, with a matrix of channels for each term, whose own gradients are left out."""
    conv = ChebConv(channels, channels, degree + 1, bias=False).to(structure.device)
    conv.requires_grad_(False)
    edge_index = torch.stack(structure.edges).flip(0)
    return lambda x, weight, t: conv(x, edge_index, weight)


def compare(
    structure: GraphStructure, x: Tensor, weight: Tensor, args: argparse.Namespace, note: Note
) -> None:
    """Time all ways on a graph."""
    columns = x[:, :2].double()
    exact = run_epoch(fused(structure, args.degree, "torch"), columns, weight.double())
    size = x.numel() * x.element_size()
    least = args.degree * (12 * size + 24 * structure.num_edges) / bandwidth(args.device)
    shape = {"N": x.size(0), "D": x.size(1)}
    ours = [
        name
        for name in CHEBYSHEV.backends
        if name != "reference" and CHEBYSHEV.can_run(name, x.device)
    ]
    makers = {name: lambda name=name: fused(structure, args.degree, name) for name in ours}
    makers["cuSPARSE (torch CSR), forward"] = lambda: cusparse(structure, weight, args.degree)
    makers["PyG ChebConv, with its maps"] = lambda: cheb_conv(structure, x.size(1), args.degree)
    for name, make in makers.items():
        try:
            epoch, off = make(), None
            if name in ours:
                found = symmetric_part(run_epoch(epoch, columns.float(), weight), structure)
                pairs = zip(found, symmetric_part(exact, structure), strict=True)
                off = max(error(*pair) for pair in pairs)
            elif name.endswith("forward"):
                off = error(epoch(columns.float(), weight, weight), exact[0])
            row = seconds(epoch, x, weight, args.repeats)
            if "epoch ms" in row:
                row["epoch / limit"] = row["epoch ms"] / (1e3 * least)
            wrong = None if off is None else too_large(off, 1e-4)
            note(way=name, **shape, **row, error=off, failed=wrong)
        except Exception as problem:
            note(way=name, **shape, failed=last_line(problem))
        if x.is_cuda:
            torch.cuda.empty_cache()


def newsgroups(args: argparse.Namespace, note: Note) -> None:
    """An epoch on the neighbours of documents."""
    x = load_points(args)
    edge_index, weight = knn_graph(x, args.k)
    structure = GraphStructure(edge_index.to(args.device), x.size(0))
    compare(structure, x.to(args.device), weight.to(args.device), args, note)


def million(args: argparse.Namespace, note: Note) -> None:
    """An epoch on neighbours of points in four dimensions."""
    edge_index = torch.stack(random_structure(args.large_points).edges).to(args.device)
    structure = GraphStructure(edge_index, args.large_points)
    x = torch.randn(args.large_points, args.large_channels, device=args.device)
    weight = torch.ones(structure.num_edges, device=args.device)
    compare(structure, x, weight, args, note)


def align(args: argparse.Namespace, note: Note) -> None:
    """A spiral and a Swiss roll."""
    case = alignment.spiral_case(args, args.align, 0)
    source, target = case.source.to(args.device), case.target.to(args.device)
    cost = GeodesicCost(k=alignment.NEIGHBOURS)
    options = {"backend": "triton", "starts": ("costs",), "max_iter": 1} if args.rehearse else {}
    plans = []

    def work() -> None:
        plans.append(gromov_wasserstein(cost(source), cost(target), progress=False, **options))

    for way in ("compiled on the way", "again"):
        start = now(args.device)
        memory = peak(work, args.device)
        taken = between(start, now(args.device))
        partner = plans[-1].argmax().cpu()
        first, second = case.places
        rho = abs(float(alignment.spearmanr(first, second[partner]).statistic))
        note(way=f"gromov_wasserstein, {args.align}, {way}, rank correlation {rho:.4f}",
             **{"forward ms": 1e3 * taken, "peak MB": memory})  # fmt: skip


PARTS = {
    "correct": correct,
    "newsgroups": newsgroups,
    "series": series,
    "steps": steps,
    "million": million,
    "panels": panels,
    "relations": relations,
    "alignment": align,
}


# Each in a process of its own.


def work_alone(work: Callable[..., None], args: argparse.Namespace, path: Path) -> None:
    logging.getLogger("jsem_pyg").setLevel(logging.ERROR)  # the page says what is wrong
    with path.open("a") as file:

        def note(**row: Any) -> None:
            row = {name: value for name, value in row.items() if value is not None}
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(row, flush=True)

        try:
            work(args, note)
        except BaseException as problem:
            note(way="the rest of this part", failed=last_line(problem))


def guarded(work: Callable[..., None], args: argparse.Namespace, limit: float) -> list[dict]:
    """What a part noted until it ended, failed, crashed or ran out of time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        path.touch()
        # CUDA cannot be used in a forked process where this one has looked for a device already.
        context = get_context("fork" if args.device == "cpu" else "spawn")
        child = context.Process(target=work_alone, args=(work, args, path))
        child.start()
        child.join(limit)
        is_late = child.is_alive()
        if is_late:
            child.kill()
            child.join()
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    if is_late:
        rows.append({"way": "the rest of this part", "failed": f"stopped after {limit:g} s"})
    elif child.exitcode:
        ended = f"the process ended with code {child.exitcode}"
        rows.append({"way": "the rest of this part", "failed": ended})
    return rows


def goals(table: pd.DataFrame, is_rehearsal: bool) -> list[str]:
    """The goals, beside what was measured."""
    lines: list[str] = []
    if is_rehearsal:
        return lines
    for part, epoch_goal in (("newsgroups", 4.5), ("million", 80)):
        rows = table[table["part"] == part].set_index("way")
        if "forward ms" not in rows or "epoch ms" not in rows:
            continue
        peer = rows["forward ms"].get("cuSPARSE (torch CSR), forward", math.nan)
        ratio = peer / rows["forward ms"].get("triton", math.nan)
        lines.append(
            f"{part}: forward {ratio:.2f} times as fast as cuSPARSE's series (goal 2.5), "
            f"{rows['epoch ms'].get('triton')} ms an epoch (goal {epoch_goal})."
        )
    return [" ".join(lines)] if lines else []


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    if args.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("This benchmark needs a CUDA device, and torch finds none.")
    device = "CPU" if args.device == "cpu" else torch.cuda.get_device_name()
    rows, started = [], time.perf_counter()
    for part in args.parts:
        found = guarded(PARTS[part], args, 600 if args.rehearse else LIMITS[part])
        rows += [{"part": part, **row} for row in found]
        table = pd.DataFrame(rows).dropna(axis=1, how="all")
        failed = table["failed"].notna().sum() if "failed" in table else 0
        taken = time.perf_counter() - started
        notes = [
            f"# An epoch on a GPU{' (a rehearsal: its times mean nothing)' * args.rehearse}",
            f"`python examples/benchmarks/gpu_epoch.py`: {device}, {machine()}. K = {args.degree}, "
            f"t = 5, float32; {taken:.0f} s in all.",
            *goals(table, args.rehearse),
            f"{failed} of {len(table)} rows failed.",
        ]
        write_table(table, args.output, "gpu_epoch", notes)
    return table


if __name__ == "__main__":
    main()
