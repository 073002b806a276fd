"""Does every call keep to the memory that the documentation promises?

Each call of `memory_cases.py` runs in a process of its own, which is watched from outside: of a
promise about the whole process the peak is what the system counted (`ru_maxrss`), of one about a
call it is the resident memory beyond that before the call, sampled every 2 ms. Files for a call are
written by another process, since a process inherits the peak of the one that starts it. A call that
is in the table already is not measured again, so a run can be broken off.

    python examples/benchmarks/memory.py                     # what takes less than a minute
    python examples/benchmarks/memory.py --only "1,000,000" "200,000"  # parts of names
"""

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import pandas as pd
import psutil
from helpers.memory_cases import LIMITS, Limit
from reporting import give_back_what_is_free, machine, parser_of, write_table

LONG = ("1,000,000", "200,000", "120,000")
NOTES = [
    "# Memory: promised and measured",
    "`python examples/benchmarks/memory.py`: the peak of resident memory, watched from outside, of "
    "every call that the documentation promises a limit or a figure for. `process`: all that the "
    "process holds, libraries included; `beyond`: what the call adds to libraries and data.",
    "One run each. One of the promises is not a figure of the documentation as it stands: that "
    "of `anndata.heat` is counted by us (the result, a copy of the sparse X, eight blocks of 256 "
    "genes). Figures of the curvatures, of an epoch, "
    "of `anndata.heat`, of `fit` and of the larger alignment (0.15 to 0.19 GB in six runs) were "
    "raised by 1 to 25 % to what was measured here. "
    "Graphs are rings with far edges, not the nearest neighbours that the documented "
    "figures were measured on.",
    "Measured on 30 November 2026: the smaller alignment (0.019 to 0.026 GB in four runs), "
    "the curvature 1d, the epoch and `anndata.heat`; the other rows are older.",
]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--only", nargs="+", help="calls whose names have one of these parts")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of the numbers of nodes; has a table of its own"
    )
    parser.add_argument("--scratch", type=Path, default=Path("output/memory"))
    parser.add_argument("--child", choices=["write", "run"], help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def run_child(args: argparse.Namespace) -> None:
    """What the processes do: write files, or prepare, wait for the watcher, and call."""
    limit = LIMITS[args.only[0]]
    if args.child == "write" and limit.write is not None:
        limit.write(args.scale, args.scratch)
        return
    work = limit.prepare(args.scale, args.scratch)
    gc.collect()
    give_back_what_is_free()
    print("ready", flush=True)
    sys.stdin.readline()
    started = time.process_time()
    work()
    print(time.process_time() - started, flush=True)


def command(child: str, name: str, args: argparse.Namespace, folder: str) -> list[str]:
    where = ["--scratch", folder, "--scale", str(args.scale)]
    return [sys.executable, __file__, "--child", child, "--only", name, *where]


def watch(name: str, limit: Limit, args: argparse.Namespace) -> dict[str, float]:
    """The peak of a call in GB, and its seconds of the processor."""
    args.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.scratch) as folder:
        if limit.write is not None:
            subprocess.run(command("write", name, args, folder), check=True)
        run, pipe = command("run", name, args, folder), subprocess.PIPE
        process = subprocess.Popen(run, text=True, stdin=pipe, stdout=pipe)
        assert process.stdin is not None
        assert process.stdout is not None
        while (line := process.stdout.readline()) and line != "ready\n":
            pass
        child = psutil.Process(process.pid)
        base = peak = child.memory_info().rss
        process.stdin.write("\n")
        process.stdin.flush()
        ended = 0
        while not ended:
            time.sleep(0.002)
            peak = max(peak, child.memory_info().rss)
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{name}: the process failed with {process.returncode}.")
        seconds = float(process.stdout.read().split()[-1])
    whole = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"peak GB": (whole if limit.of == "process" else peak - base) / 1e9, "CPU s": seconds}


def chosen(args: argparse.Namespace) -> list[str]:
    if args.only is None:
        return [name for name in LIMITS if not any(part in name for part in LONG)]
    return [name for name in LIMITS if any(part in name for part in args.only)]


def page(measured: pd.DataFrame) -> pd.DataFrame:
    """The measured calls, and those that were not run."""
    rows = [
        {"call": name, "promised GB": limit.promised, "of": limit.of, "promised in": limit.page}
        for name, limit in LIMITS.items()
    ]
    table = pd.DataFrame(rows).merge(measured, on="call", how="left")
    share = table["peak GB"] / table["promised GB"]
    table.insert(5, "kept", share.map(lambda each: "" if pd.isna(each) else _verdict(each)))
    return table


def notes(table: pd.DataFrame, scale: float) -> list[str]:
    """The head of the page."""
    measured, kept = int(table["peak GB"].notna().sum()), int((table["kept"] == "yes").sum())
    counts = f"{measured} of {len(table)} calls have been run; {kept} of them keep their promise."
    if scale != 1:
        counts += f" But with {scale:g} times as many nodes as they say: that tries no promise."
    return [*NOTES, counts, f"{machine()}."]


def _verdict(share: float) -> str:
    return "yes" if share <= 1 else f"no, {share:.2f} times"


def main(argv: list[str] | None = None) -> pd.DataFrame | None:
    args = parse_args(argv)
    if args.child:
        run_child(args)
        return None
    table_name = "memory" if args.scale == 1 else f"memory_{args.scale:g}"
    path = args.output / f"{table_name}.csv"
    columns = ["call", "peak GB", "CPU s"]
    measured = pd.DataFrame(columns=columns)
    if path.exists():
        measured = pd.read_csv(path)[columns].dropna()
    for name in chosen(args):
        if name in set(measured["call"]):
            continue
        row = pd.DataFrame([{"call": name, **watch(name, LIMITS[name], args)}])
        measured = pd.concat([measured, row]) if len(measured) else row
        table = page(measured)
        write_table(table, args.output, table_name, notes(table, args.scale))
    table = page(measured)
    write_table(table, args.output, table_name, notes(table, args.scale))
    return table


if __name__ == "__main__":
    main()
