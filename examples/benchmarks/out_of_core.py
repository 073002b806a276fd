"""What does it cost to diffuse an array from file to file, and how much memory does it take?

`diffuse_file` runs in a process of its own, whose resident memory is watched from outside every few
milliseconds, with several limits; `heat_diffusion` in another one, on as many columns as
`--compare` says, whose seconds are taken times the columns of the file, and those for preparing the
graph once. Answers are checked: the columns that were compared are the same numbers. Graph: the
nearest neighbours of random points.

    python examples/benchmarks/out_of_core.py                    # 100,000 x 512
    python examples/benchmarks/out_of_core.py --nodes 1000000 --channels 1024 --memory 2GB 3GB
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
from reporting import machine, parser_of, write_table
from scaling import random_edges

# What the processes run: little beside the package, whose memory is what is asked for.
_PREPARE = """
import json, sys, time
import numpy as np, torch
job = json.loads(sys.argv[1])
edge_index = torch.from_numpy(np.load(job["edges"]))
started = time.perf_counter()
"""
_FROM_FILE = """
from jsem_pyg.partition import diffuse_file
diffuse_file(job["x"], edge_index, job["y"], job["t"], memory=job["memory"])
"""
_IN_MEMORY = """
from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
structure = GraphStructure(edge_index, job["nodes"])
heat_diffusion(torch.ones(job["nodes"], 1), structure, degree=1, t=0.0)
print(time.perf_counter() - started)
def part(begin):  # mapped anew each time, so that what was read is not held
    return np.load(job["x"], mmap_mode="r")[begin:begin + 10000, :job["compare"]].copy()
x = torch.from_numpy(np.concatenate([part(begin) for begin in range(0, job["nodes"], 10000)]))
started = time.perf_counter()
y = heat_diffusion(x, structure, t=job["t"])
"""
_REPORT = """
print(time.perf_counter() - started)
"""
_SAVE = """
np.save(job["y"], y.numpy())
"""


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--channels", type=int, default=512)
    parser.add_argument("--compare", type=int, default=64, help="columns diffused in memory")
    parser.add_argument("--neighbours", type=int, default=15)
    parser.add_argument("--t", type=float, default=5.0)
    parser.add_argument("--memory", nargs="+", default=["1GB", "2GB"])
    parser.add_argument("--order", choices=["C", "F"], default="C", help="of the file")
    parser.add_argument("--scratch", type=Path, default=Path("output/out_of_core"))
    return parser.parse_args(argv)


def write_source(path: Path, shape: tuple[int, int], order: str) -> None:
    """Random numbers, strip after strip."""
    generator = np.random.default_rng(0)
    form = {"dtype": np.float32, "shape": shape, "fortran_order": order == "F"}
    x = np.lib.format.open_memmap(path, mode="w+", **form)
    for begin in range(0, shape[0], 1 << 14):
        part = x[begin : begin + (1 << 14)]
        part[:] = generator.standard_normal(part.shape, np.float32)
    x.flush()


def edges_file(folder: Path, num_nodes: int, neighbours: int) -> Path:
    """The graph, which takes a minute for a million nodes, and is kept."""
    path = folder / f"edges-{num_nodes}-{neighbours}.npy"
    if not path.exists():
        np.save(path, random_edges(num_nodes, neighbours).numpy())
    return path


def watched(code: str, job: dict) -> dict:
    """Run code in a process: its seconds, its peak memory, and what it has read and written."""
    command = [sys.executable, "-c", code, json.dumps(job)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    child, peak, moved, busy = psutil.Process(process.pid), 0, (0, 0), 0.0
    while process.poll() is None:
        try:
            peak = max(peak, child.memory_info().rss)
            busy = sum(child.cpu_times()[:2])
            if hasattr(child, "io_counters"):
                counters = child.io_counters()
                moved = counters.read_chars, counters.write_chars
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            break
        time.sleep(0.003)
    out = process.communicate()[0]
    if process.returncode != 0:
        raise RuntimeError(f"A process failed with the status {process.returncode}.")
    *before, seconds = map(float, out.split())
    return {
        "prepare s": sum(before),
        "s": seconds,
        "CPU s": busy,
        "peak GB": peak / 1e9,
        "GB read": moved[0] / 1e9,
        "GB written": moved[1] / 1e9,
    }


def check(from_file: Path, in_memory: Path) -> None:
    expected = np.load(in_memory, mmap_mode="r")
    actual = np.load(from_file, mmap_mode="r")[:, : expected.shape[1]]
    step = 1 << 14
    for begin in range(0, len(expected), step):
        part = slice(begin, begin + step)
        np.testing.assert_allclose(actual[part], expected[part], rtol=1e-5, atol=1e-6)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    args.scratch.mkdir(parents=True, exist_ok=True)
    edges = edges_file(args.scratch, args.nodes, args.neighbours)
    x, y, part = (args.scratch / f"{name}.npy" for name in ("x", "y", "part"))
    write_source(x, (args.nodes, args.channels), args.order)
    compare = min(args.compare, args.channels)
    job = {"edges": str(edges), "x": str(x), "y": str(part), "t": args.t}
    job |= {"compare": compare, "nodes": args.nodes}
    inside = watched(_PREPARE + _IN_MEMORY + _REPORT + _SAVE, job)
    whole = inside["prepare s"] + inside["s"] * args.channels / compare
    rows = [{"memory": f"all, {compare} columns"} | inside | {"time / in memory": 1.0}]
    for memory in args.memory:
        seen = watched(_PREPARE + _FROM_FILE + _REPORT, job | {"y": str(y), "memory": memory})
        check(y, part)
        rows.append({"memory": memory} | seen | {"time / in memory": seen["s"] / whole})
        y.unlink()
    for path in (x, part):
        path.unlink()
    table = pd.DataFrame(rows)
    size = args.nodes * args.channels * 4 / 1e9
    about = f"{args.nodes} x {args.channels} float32 in {args.order}'s order, {size:.3g} GB, "
    write_table(table, args.output, "out_of_core", [machine(), f"{about}t = {args.t}"])
    return table


if __name__ == "__main__":
    main()
