"""Graphs larger than the caches: how near is an epoch to what memory allows?

An epoch is the series of the operator forward, and backward in x, the values and the coefficients,
on the graph of the nearest neighbours of random points in four dimensions. It is compared with

- the same by the kernels of an earlier commit (--before), which git has, epoch by epoch in turn;
- the bytes that have to move, counted by hand (`least_traffic`), over the bandwidth of a triad
  a = b + s c of arrays that no cache holds, measured in the same run;
- variants of today's kernels in which one idea is left out (--ablate).

Answers are compared before anything is timed. Times are medians, of wall clock and of the processor
(the latter is what to read on a machine that is not idle). Peak memory is beyond that before the
epoch, in copies of x.

    python examples/benchmarks/large_graphs.py                          # up to 100,000 nodes
    python examples/benchmarks/large_graphs.py --nodes 11314 100000 300000 1000000 --ablate
"""

import argparse
import importlib
import io
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from numba import njit
from reporting import PeakMemory, exponent, machine, write_table
from scaling import random_edges

from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.chebyshev import numba_cpu, tiles
from jsem_pyg.operators import laplacian_operator

ROOT = Path(__file__).resolve().parents[2]
BEFORE = "8acf4f7"  # tiles of one cache line, a thread each
NEVER = 1 << 62

# What is left out -> the constants that leave it out.
VARIANTS: dict[str, dict[str, Any]] = {
    "asking ahead": {"_LINES_AHEAD": 0},
    "tiles together": {"_SMALL_TILE": NEVER},  # and so asking ahead
    "tiles of two lines": {"num_lanes": lambda _, dtype: tiles.CACHE_LINE // dtype.itemsize},
}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[11_314, 30_000, 100_000])
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--degree", type=int, default=30)
    parser.add_argument("--neighbours", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--before", default=BEFORE, help="a commit; '' for none")
    parser.add_argument("--ablate", action="store_true")
    parser.add_argument("--stream-size", type=int, default=1 << 26, help="numbers in an array")
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    return parser.parse_args(argv)


def kernels_of(commit: str, folder: Path) -> Any:
    """The module of the numba kernels of a commit, under another name than today's."""
    packed = subprocess.run(
        ["git", "archive", commit, "jsem_pyg"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout  # fmt: skip
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(folder, filter="data")
    package = (folder / "jsem_pyg").rename(folder / "jsem_pyg_before")
    (package / "__init__.py").write_text("")  # or it would register its ops with torch once more
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("jsem_pyg_before.kernels.chebyshev.numba_cpu")
    finally:
        sys.path.remove(str(folder))


def epoch(module: Any, csr: Any, leaves: list[torch.Tensor]) -> dict[str, Any]:
    values, x, coefficients = (leaf.clone().requires_grad_() for leaf in leaves)
    memory = PeakMemory()
    wall, cpu = time.perf_counter(), time.process_time()
    out = module.SparseOperator(csr, values).series(x, coefficients)
    out.backward(torch.ones_like(out))
    seconds = {"wall s": time.perf_counter() - wall, "cpu s": time.process_time() - cpu}
    copies = memory.stop() / (x.numel() * x.element_size())
    return {"results": (out.detach(), x.grad, coefficients.grad), "copies of x": copies, **seconds}


def check(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for actual, wanted in zip(ours["results"], theirs["results"], strict=True):
        error = float((actual - wanted).norm() / wanted.norm())
        if not error <= 1e-4:
            raise AssertionError(f"The kernels disagree: {error:.2g}.")


def least_traffic(num_nodes: int, num_slots: int, channels: int, terms: int) -> int:
    """Bytes to and from memory of an epoch, if every neighbour were in a cache; float32.

    Of a tile and term, forward: T_(k-1) is read, T_(k-2) read and T_k written, a third of the
    result read and written, column and value of each edge read. Backward: that of B and of T, G
    read, and the gradients of half the edges read and written.
    """
    lanes = tiles.num_lanes(channels, torch.float32)
    num_tiles, tile = -(-channels // lanes), 4 * num_nodes * lanes
    forward = 3 * tile + 2 * tile // 3 + 8 * num_slots
    backward = (3 + 3 + 1) * tile + (8 + 4) * num_slots
    return num_tiles * terms * (forward + backward)


@njit(nogil=True)
def _triad(a: Any, b: Any, c: Any) -> None:
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


def problem(num_nodes: int, args: argparse.Namespace) -> tuple[Any, list[torch.Tensor]]:
    edges = random_edges(num_nodes, args.neighbours)
    structure = GraphStructure(edges, num_nodes)
    matrix = laplacian_operator(structure, torch.ones(edges.size(1)), "sym").matrix
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_nodes, args.channels, generator=generator)
    coefficients = torch.rand(args.degree + 1, 1, 1, 1, generator=generator)
    return matrix.csr, [matrix.values[0], x, coefficients]


def ways(before: Any, ablate: bool) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Name -> the module of the kernels, and the constants to change in it."""
    found: dict[str, tuple[Any, dict[str, Any]]] = {"now": (numba_cpu, {})}
    if before is not None:
        found["before"] = (before, {})
    if ablate:
        found |= {f"without {name}": (numba_cpu, change) for name, change in VARIANTS.items()}
    return found


def run(way: tuple[Any, dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    module, changes = way
    with ExitStack() as changed:
        for name, value in changes.items():
            changed.enter_context(patch.object(module, name, value))
        return epoch(module, *arguments)


def measure(num_nodes: int, before: Any, speed: float, args: argparse.Namespace) -> list[dict]:
    csr, leaves = problem(num_nodes, args)
    compared = ways(before, args.ablate)
    expected: dict[str, Any] | None = None
    for way in compared.values():  # compiles, and orders the rows
        found = run(way, csr, leaves)
        check(found, expected or found)
        expected = expected or found
    del found, expected
    runs: dict[str, list[dict]] = {name: [] for name in compared}
    for _ in range(args.repeats):
        for name, way in compared.items():
            result = run(way, csr, leaves)
            runs[name].append({key: result[key] for key in result if key != "results"})
            del result
    gigabytes = least_traffic(num_nodes, csr.num_slots, args.channels, args.degree + 1) / 1e9
    rows = []
    for name, each in runs.items():
        seconds = pd.DataFrame(each).median()
        rows.append(
            {"N": num_nodes, "edges": csr.num_slots, "way": name, **seconds}
            | {"least GB": gigabytes, "wall / least": seconds["wall s"] / (1e9 * gigabytes / speed)}
        )
    for row in rows:
        for clock in ("wall s", "cpu s"):
            row[f"{clock[:-2]} / now"] = row[clock] / rows[0][clock]
        print(", ".join(f"{key} = {value}" for key, value in row.items()), flush=True)
    return rows


def notes(table: pd.DataFrame, speed: float) -> list[str]:
    found = [f"{machine()}, float32. Triad: {speed / 1e9:.1f} GB/s."]
    large = table[(table["N"] >= 100_000) & ~table["way"].str.startswith("without")]
    for way, rows in large.groupby("way"):
        if len(rows) > 1:
            slope = exponent(rows["edges"], rows["wall s"])
            found.append(
                f"Exponent of time in edges from {min(rows['N']):,} nodes, {way}: {slope:.2f}."
            )
    return found


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    speed = bandwidth(args.stream_size, torch.get_num_threads())
    with tempfile.TemporaryDirectory() as folder:
        before = kernels_of(args.before, Path(folder)) if args.before else None
        rows = [row for size in args.nodes for row in measure(size, before, speed, args)]
    table = pd.DataFrame(rows)
    write_table(table, args.output, "large_graphs", notes(table, speed))
    return table


if __name__ == "__main__":
    main()
