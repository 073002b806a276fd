"""How long is one pass over a transport plan of low rank that nobody stores?

A pass is what a Sinkhorn step asks for: potentials of the rows, masses of the columns, T y, and the
peaks of the rows; see `jsem_pyg/kernels/sinkhorn`. The peers are dense matrices in torch, where
they fit into memory, tiles of rows in torch, and the two matrix products alone that any pass
contains, on tiles that stay in the cache. Rank 11 is what a factored cost of ten coordinates has,
rank 193 one of 192. At "warm" temperatures a row goes to hundreds of columns, at "cold" ones to
few; points are in the order of a curve that they lie on, so that then much can be skipped.

All ways take turns, and times are the least of the CPU seconds of the process, so that neighbours
on the machine weigh little; with more than one thread, of wall-clock seconds.

    python examples/benchmarks/sinkhorn_pass.py
    python examples/benchmarks/sinkhorn_pass.py --threads 2 --sizes 20000x25000x11
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch
from reporting import machine, write_table
from torch import Tensor

from jsem_pyg.kernels.sinkhorn import torch_tiles
from jsem_pyg.kernels.table import SINKHORN

SIZES = ["200x200x11", "2000x2500x11", "20000x25000x11", "2000x250000x11", "2000x2000x193",
         "8000x8000x193"]  # fmt: skip
_DENSE = 1 << 26  # entries: a few matrices of them are kept


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="rows x columns x rank")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    return parser.parse_args(argv)


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


def dense(u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """The plain way, in float32."""
    plan = u @ v.T + g
    top = plan.amax(1)
    plan = (plan - top[:, None]).exp2()
    total = plan.sum(1)
    plan *= (log2_p.exp2() / total)[:, None]
    return log2_p - top - total.log2(), plan.sum(0), plan @ y, 1 / total


def two_products(u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, y: Tensor) -> None:
    """What BLAS alone would take, without potentials, exponentials or sums."""
    step = max(64, (1 << 20) // v.size(0))
    tile = torch.empty(step, v.size(0))
    for start in range(0, u.size(0), step):
        part = u[start : start + step]
        block = torch.mm(part, v.T, out=tile[: part.size(0)])
        block @ y


def least_times(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():  # warm up
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            started = clock()
            call()
            best[name] = min(best[name], clock() - started)
    return best


def compare(size: str, bits: float, repeats: int) -> dict[str, object]:
    rows, columns, rank = (int(each) for each in size.split("x"))
    problem = scores(rows, columns, rank, bits)
    fast = SINKHORN.find("auto", problem[0].device)
    calls: dict[str, Callable[[], object]] = {
        "pass": lambda: fast.sinkhorn_pass(*problem),
        "tiles": lambda: torch_tiles.sinkhorn_pass(*problem),
        "products": lambda: two_products(*problem),
    }
    if rows * columns <= _DENSE:
        calls["dense"] = lambda: dense(*problem)
    entries = rows * columns
    best = least_times(calls, max(repeats, min(200, (1 << 24) // entries)))
    result = fast.sinkhorn_pass(*problem)
    plain = torch_tiles.sinkhorn_pass(*problem)
    apart = (result.average - plain.average).norm() / plain.average.norm()
    if apart > 1e-4:
        raise RuntimeError(f"The ways differ by {float(apart):.1e}, and their times mean nothing.")
    return {
        "rows": rows,
        "columns": columns,
        "rank": rank,
        "scores": "warm" if bits < 1e3 else "cold",
        "peak": float(result.peak.mean()),
        "ms": best["pass"] * 1e3,
        "ns per entry": best["pass"] / entries * 1e9,
        **{f"{name} / pass": best.get(name, float("nan")) / best["pass"]
           for name in ("dense", "tiles", "products")},
    }  # fmt: skip


def main(argv: list[str] | None = None) -> None:
    args = parse_args(argv)
    torch.set_num_threads(args.threads)
    table = [compare(size, bits, args.repeats) for size in args.sizes for bits in (30.0, 30_000.0)]
    backend = SINKHORN.choose("auto", torch.device("cpu"))
    notes = [
        "# A pass over a plan that is not stored",
        f"float32, backend {backend!r}. {machine()}.",
        "Ratios: how many times as long dense matrices in torch, tiles in torch, and "
        "the two matrix products alone take.",
    ]
    write_table(pd.DataFrame(table), args.output, "sinkhorn_pass", notes)


if __name__ == "__main__":
    main()
