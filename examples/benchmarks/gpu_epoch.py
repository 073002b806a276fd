"""The first hour on a GPU: are all Triton kernels right, and how fast is an epoch?

Seven parts, each in a process of its own with a limit of time, six minutes together. What fails is
written down with the last line of its error, and the others run; the page is written anew after
each part.

- `correct`: values and gradients of every Triton family against its reference.
- `newsgroups`: an epoch, forward and backward in x, the edge weights and t, on the graph of 20
  Newsgroups, beside the same recurrence by cuSPARSE (torch's CSR products), torch-sparse where it
  is installed, and PyG's ChebConv with as many terms. Every way of ours is checked on a few columns
  before it is timed by events, as the median over repeats.
- `steps`: a training step of the layers (forward and backward, many in a row without a wait of this
  script) with each switch of `jsem_pyg.kernels.fused` alone, with none and with all. Every way is
  compared with the first before it is timed.
- `relations`: a step of a convolution with relations beside PyG's RGCNConv.
- `panels`: `diffuse_file(device=)`, panels of columns from a file through the GPU.
- `million`: an epoch with a million nodes and 128 channels.
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
import statistics
import sys
import tempfile
import textwrap
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import fields
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

if "--rehearse" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # which Triton reads when it is imported

import alignment
import numpy as np
import pandas as pd
import torch
from reporting import PeakMemory, machine, write_table
from scaling import random_structure
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import ChebConv, RGCNConv
from training_epoch import Epoch, fused, load_points, symmetric_part

from jsem_pyg.diffusion import heat_coefficients, heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.fused import SWITCHES
from jsem_pyg.kernels.table import CHEBYSHEV, SINKHORN
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion
from jsem_pyg.operators import laplacian_operator
from jsem_pyg.partition import diffuse_file
from jsem_pyg.transport import GeodesicCost, gromov_wasserstein

Note = Callable[..., None]
LIMITS = {  # seconds
    "correct": 60,
    "newsgroups": 60,
    "steps": 50,
    "relations": 30,
    "panels": 20,
    "million": 110,
    "alignment": 30,
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


# Time and memory.


def now(device: str) -> torch.cuda.Event | float:
    if device == "cpu":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between(first: torch.cuda.Event | float, second: torch.cuda.Event | float) -> float:
    if isinstance(first, float):
        return second - first
    second.synchronize()
    return first.elapsed_time(second) / 1e3


def peak(work: Callable[[], object], device: str) -> float:
    """The most memory beyond that at the start, in MB."""
    if device == "cpu":
        memory = PeakMemory()
        work()
        return memory.stop() / 1e6
    base = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    return (torch.cuda.max_memory_allocated() - base) / 1e6


def bandwidth(device: str) -> float:
    """Bytes a second that a copy reads and writes."""
    source = torch.ones((1 << 28) if device != "cpu" else (1 << 16), device=device)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(5):
        start = now(device)
        target.copy_(source)
        best = min(best, between(start, now(device)))
    return 2 * source.numel() * source.element_size() / best


def run_epoch(epoch: Epoch, x: Tensor, weight: Tensor) -> list[Tensor]:
    leaves = [x.clone(), weight.clone(), torch.tensor(5.0)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    out = epoch(*leaves)
    out.backward(x)  # against which no part of the slope in t cancels another
    return [out.detach(), *(leaf.grad for leaf in leaves)]


def seconds(epoch: Epoch, x: Tensor, weight: Tensor, repeats: int) -> dict[str, float]:
    """Medians of the time forward and backward, apart; and the peak of memory of an epoch."""
    device = x.device.type
    leaves = [x.clone(), weight.clone(), torch.tensor(5.0)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    timings = []
    warm_up = min(3, repeats)
    for repeat in range(repeats + warm_up):
        marks = [now(device)]
        out = epoch(*leaves)
        marks.append(now(device))
        if out.requires_grad:
            torch.autograd.grad(out, leaves, torch.ones_like(out), allow_unused=True)
        marks.append(now(device))
        if repeat >= warm_up:
            timings.append([between(*pair) for pair in pairwise(marks)])
    forward, backward = (1e3 * statistics.median(each) for each in zip(*timings, strict=True))
    found = {"forward ms": forward}
    if out.requires_grad:
        found |= {"backward ms": backward, "epoch ms": forward + backward}
        found["peak MB"] = peak(lambda: run_epoch_once(epoch, leaves), device)
    return found


def run_epoch_once(epoch: Epoch, leaves: list[Tensor]) -> None:
    out = epoch(*leaves)
    torch.autograd.grad(out, leaves, torch.ones_like(out), allow_unused=True)


def error(found: Tensor, wanted: Tensor) -> float:
    found, wanted = found.double(), wanted.double()
    return float((found - wanted).norm() / wanted.norm().clamp_min(1e-300))


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
        found, wanted = (
            symmetric_part(run_epoch(fused(structure, args.degree, way), *given), structure)
            for way in ("triton", "reference")
        )
        largest = max(error(*pair) for pair in zip(found, wanted, strict=True))
        note(way=f"Chebyshev series, {dtype}", error=largest, failed=_too_large(largest, tol))
        for kind in ("diffusion", "convolution"):
            found, wanted = (
                gradients_of(
                    training_layer(kind, x.size(1), args, backend=way).to(dtype),
                    given[0], structure, given[1], given[1].unsqueeze(-1),
                )
                for way in ("triton", "reference")
            )  # fmt: skip
            largest = max(error(*pair) for pair in zip(found, wanted, strict=True))
            failed = _too_large(largest, tol)
            note(way=f"a layer, {kind}, {dtype}", error=largest, failed=failed)
    shape = (5, 7, 3) if args.rehearse else (2000, 2500, 33)
    for dtype, tol in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
        case = [each.to(args.device, dtype) for each in scores(*shape, 30.0)]
        modules = (SINKHORN.find(way, torch.device(args.device)) for way in ("triton", "torch"))
        found, wanted = (module.sinkhorn_pass(*case) for module in modules)
        largest = max(error(*pair) for pair in zip(found, wanted, strict=True))
        note(way=f"Sinkhorn pass, {dtype}", error=largest, failed=_too_large(largest, tol))


def _too_large(found: float, tol: float) -> str | None:
    return None if found <= tol else f"an error of {found:.2g}, where {tol:g} is allowed"


def cusparse(structure: GraphStructure, weight: Tensor, degree: int) -> Epoch:
    """The recurrence by torch's CSR products, forward only, with S made beforehand."""
    operator = laplacian_operator(structure, weight).matrix
    csr, size = operator.csr, structure.num_nodes
    warnings.filterwarnings("ignore", "Sparse", UserWarning)
    matrix = torch.sparse_csr_tensor(
        csr.rowptr, csr.col.long(), operator.values[0], (size, size), check_invariants=False
    )
    c = heat_coefficients(torch.tensor(5.0), degree).tolist()

    def run(x: Tensor, weight: Tensor, t: Tensor) -> Tensor:
        with torch.no_grad():
            before, term = x, matrix @ x
            out = c[0] * before + c[1] * term
            for each in c[2:]:
                before, term = term, 2 * (matrix @ term) - before
                out += each * term
            return out

    return run


def made_before(structure: GraphStructure, weight: Tensor, degree: int, backend: str) -> Epoch:
    """Ours under the conditions of :func:`cusparse`."""
    operator = laplacian_operator(structure, weight, backend=backend).matrix
    c = heat_coefficients(torch.tensor(5.0), degree).to(weight).view(-1, 1, 1)

    def run(x: Tensor, weight: Tensor, t: Tensor) -> Tensor:
        with torch.no_grad():
            return operator.series(x, c).squeeze(0)

    return run


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
    if "triton" in ours:
        makers["triton, S made beforehand, forward"] = lambda: made_before(
            structure, weight, args.degree, "triton"
        )
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
            wrong = None if off is None else _too_large(off, 1e-4)
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


def training_layer(kind: str, channels: int, args: argparse.Namespace, **options: Any) -> Module:
    """A layer whose conductance and time have been learned a little."""
    torch.manual_seed(0)
    options = {"degree": args.degree, "backend": "triton"} | options
    if kind == "diffusion":
        layer = AnisotropicDiffusion(t=5.0, **options)
    else:
        layer = AnisotropicChebConv(channels, channels, t=5.0, **options)
    with torch.no_grad():
        for name, each in layer.named_parameters():
            if name.startswith(("conductance", "time", "relation")):
                each.add_(0.1)
    return layer.to(args.device)


def step_seconds(step: Callable[[], object], repeats: int, device: str) -> float:
    """Median time of a step among several in a row, so that waits of the host show."""
    in_a_row = 1 if device == "cpu" else 10
    timings = []
    for _ in range(max(repeats // 4, 1) + 1):
        start = now(device)
        for _ in range(in_a_row):
            step()
        timings.append(between(start, now(device)) / in_a_row)
    return statistics.median(timings[1:])


def gradients_of(layer: Module, *given: Any, **named: Any) -> list[Tensor]:
    """The result of a layer, and the gradients of its parameters."""
    learned = [each for each in layer.parameters() if each.requires_grad]
    out = layer(*given, **named)
    return [out.detach(), *torch.autograd.grad(out, learned, out.detach())]


def steps(args: argparse.Namespace, note: Note) -> None:
    """A training step with each switch alone, with none and with all."""
    x = load_points(args).to(args.device)
    edge_index, weight = knn_graph(x.cpu(), args.k)
    structure = GraphStructure(edge_index.to(args.device), x.size(0))
    weight = weight.to(args.device)
    names = [each.name for each in fields(SWITCHES)]
    ways = {"none of the switches": [], **{f"{name} alone": [name] for name in names}}
    ways["all switches"] = names
    for kind in ("diffusion", "convolution"):
        first = None
        for way, chosen in ways.items():
            for name in names:
                setattr(SWITCHES, name, name in chosen)
            try:
                layer = training_layer(kind, x.size(1), args)
                given = layer, x, structure, weight, weight.unsqueeze(-1)
                found = gradients_of(*given)
                first = found if first is None else first
                off = max(error(*pair) for pair in zip(found, first, strict=True))
                taken = step_seconds(lambda g=given: gradients_of(*g), args.repeats, args.device)
                note(way=f"{kind}, {way}", N=x.size(0), D=x.size(1), error=off,
                     failed=_too_large(off, 1e-4), **{"epoch ms": 1e3 * taken})  # fmt: skip
            except Exception as problem:
                note(way=f"{kind}, {way}", failed=last_line(problem))


def relations(args: argparse.Namespace, note: Note) -> None:
    """A step of a convolution with a conductance for each relation, beside RGCNConv."""
    x, num_relations = load_points(args).to(args.device), 4
    edge_index, _ = knn_graph(x.cpu(), args.k)
    edge_index = edge_index.to(args.device)
    structure = GraphStructure(edge_index, x.size(0))
    edge_type = edge_index.sum(0) % num_relations
    channels = x.size(1)
    ours = training_layer("convolution", channels, args, edge_dim=0, num_relations=num_relations)
    theirs = RGCNConv(channels, channels, num_relations).to(args.device)
    ways = {
        f"AnisotropicChebConv, {num_relations} relations": (
            lambda: gradients_of(ours, x, structure, edge_type=edge_type)
        ),
        f"PyG RGCNConv, {num_relations} relations": (
            lambda: gradients_of(theirs, x, edge_index, edge_type)
        ),
    }
    for way, step in ways.items():
        taken = step_seconds(step, args.repeats, args.device)
        note(way=way, N=x.size(0), D=channels, **{"epoch ms": 1e3 * taken})


def panels(args: argparse.Namespace, note: Note) -> None:
    """A file through the GPU, in panels of columns; beside the same from memory."""
    x = load_points(args)
    edge_index, weight = knn_graph(x, args.k)
    structure = GraphStructure(edge_index, x.size(0))
    x = x.repeat(1, 1 if args.rehearse else 8)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "x.npy", Path(folder) / "y.npy"
        np.save(source, x.numpy())
        started = time.perf_counter()
        diffuse_file(
            source, structure, target, 5.0, edge_weight=weight, memory="4GB",
            device=args.device, progress=False,
        )  # fmt: skip
        taken, found = time.perf_counter() - started, torch.from_numpy(np.load(target))
    on_device = GraphStructure(edge_index.to(args.device), x.size(0))

    def run() -> Tensor:
        moved = x.to(args.device), weight.to(args.device)
        return heat_diffusion(moved[0], on_device, moved[1], 5.0).cpu()

    run()
    started = time.perf_counter()
    wanted = run()
    from_memory = time.perf_counter() - started
    off, shape = error(found, wanted), {"N": x.size(0), "D": x.size(1)}
    note(way="diffuse_file", **shape, error=off, failed=_too_large(off, 1e-5),
         **{"forward ms": 1e3 * taken})  # fmt: skip
    note(way="from memory and back", **shape, **{"forward ms": 1e3 * from_memory})


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
    "steps": steps,
    "relations": relations,
    "panels": panels,
    "million": million,
    "alignment": align,
}


# Each in a process of its own.


def last_line(problem: BaseException) -> str:
    """The last line of a traceback, or its beginning, and where it was raised."""
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    line = traceback.format_exception_only(problem)[-1].strip().split("\n")[0]
    return textwrap.shorten(line, 100) + where


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
    if {"way", "forward ms"} <= set(table.columns):
        for part, rows in table.groupby("part"):
            forward = rows.set_index("way")["forward ms"].dropna()
            peers = forward.filter(regex="^cuSPARSE")
            if "triton" in forward and len(peers):
                for way, given in (
                    ("triton", ""),
                    ("triton, S made beforehand, forward", ", given S as well,"),
                ):
                    ratio = peers.iloc[0] / forward.get(way, math.nan)
                    if not math.isnan(ratio):
                        lines.append(
                            f"{part}: forward{given} {ratio:.2f} times as fast as cuSPARSE "
                            "(goal 2.5)."
                        )
    if "epoch ms" in table:
        for part, goal in (("newsgroups", 4.5), ("million", 80)):
            rows = table[(table["part"] == part) & (table["way"] == "triton")]
            lines += [f"{part}: {each:.1f} ms an epoch (goal {goal})." for each in rows["epoch ms"]]
    return [" ".join(lines)] if lines else []


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    if args.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("This benchmark needs a CUDA device, and torch finds none.")
    device = "CPU" if args.device == "cpu" else torch.cuda.get_device_name()
    rows, started = [], time.perf_counter()
    for part in args.parts:
        found = guarded(PARTS[part], args, LIMITS[part])
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
