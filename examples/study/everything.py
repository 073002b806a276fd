"""The whole study by one command, which goes on where it stopped.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python examples/study/everything.py --data FOLDER
    python examples/study/everything.py --data FOLDER --dry-run      # says what is left, and stops
    python examples/study/everything.py --data FOLDER --parts "few labels" "two views"
    python examples/study/everything.py --quick                      # some digits

It says first how many rows each part lacks and how long they will take, in processor seconds of one
thread: by the rows of the same kind in its CSV, or in the published one. Kill it whenever you like:
rows that are there are not run again. Every part is a script of its own, with options of its own.
"""

import argparse
from pathlib import Path
from types import ModuleType

import ablations
import calibration
import few_labels
import num_classes
import run
import runner
import two_views
from forecast import Forecast, forecast, total

PARTS: dict[str, ModuleType] = {
    "study": run,
    "ablations": ablations,
    "few labels": few_labels,
    "number of clusters": num_classes,
    "calibration": calibration,
    "two views": two_views,
}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the data; digits need none")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--output", type=Path, help="results/ beside this file, or output/study")
    parser.add_argument("--quick", action="store_true", help="a few digits, short training")
    parser.add_argument("--dry-run", action="store_true", help="say what is left, and stop")
    return parser.parse_args(argv)


def of_part(args: argparse.Namespace) -> list[str]:
    """The command line of a part."""
    given = [f"--{name}={value}" for name in ("data", "output") if (value := getattr(args, name))]
    return [*given, "--quick"] if args.quick else given


def main(argv: list[str] | None = None) -> dict[str, Forecast]:
    args = parse_args(argv)
    chosen = {name: PARTS[name] for name in args.parts}
    options = {name: part.parse_args(of_part(args)) for name, part in chosen.items()}
    tables = {name: part.plan(options[name]) for name, part in chosen.items()}
    left = {name: total(map(forecast, each)) for name, each in tables.items()}
    for name, each in left.items():
        print(f"{name}: {each}", flush=True)
    print(f"everything: {total(left.values())}", flush=True)
    if not args.dry_run:
        for name, part in chosen.items():
            runner.complete_all(tables[name], options[name])
            part.report(options[name])
    return left


if __name__ == "__main__":
    main()
