"""The whole study by one command, which goes on where it stopped.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python examples/study/everything.py --data FOLDER
    python examples/study/everything.py --data FOLDER --dry-run      # says what is left, and stops
    python examples/study/everything.py --data FOLDER --parts "few labels" "two views"
    python examples/study/everything.py --quick                      # some digits

It says first how many rows each part lacks. Kill it whenever you like: rows that are there are not
run again. Every part is a script of its own, with options of its own.
"""

import argparse
from pathlib import Path
from types import ModuleType

import ablations
import calibration
import few_labels
import nodes
import num_classes
import run
import runner
import two_views
from runner import Left
from scripts import SCRIPTS

PARTS: dict[str, ModuleType] = {
    "study": run,
    "ablations": ablations,
    "few labels": few_labels,
    "number of clusters": num_classes,
    "calibration": calibration,
    "two views": two_views,
    "nodes with features and edges": nodes,
}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    names = [*PARTS, *SCRIPTS]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the data")
    parser.add_argument("--parts", nargs="+", choices=names, default=names)
    parser.add_argument("--output", type=Path, help="one folder for all; else the published ones")
    parser.add_argument("--quick", action="store_true", help="a few digits, short training")
    parser.add_argument("--dry-run", action="store_true", help="say what is left, and stop")
    args = parser.parse_args(argv)
    if args.data is None and not (args.quick or args.dry_run):
        parser.error("Expected --data FOLDER, --quick or --dry-run.")
    return args


def options(name: str, args: argparse.Namespace) -> argparse.Namespace:
    """What a part reads from its own command line."""
    given = [f"--{each}={value}" for each in ("data", "output") if (value := getattr(args, each))]
    return PARTS[name].parse_args([*given, "--quick"] if args.quick else given)


def left(name: str, args: argparse.Namespace) -> Left:
    """How many rows a part lacks."""
    if name in SCRIPTS:
        return SCRIPTS[name].left(args)
    return runner.total(map(runner.count_left, PARTS[name].plan(options(name, args))))


def complete(name: str, args: argparse.Namespace) -> None:
    """Make the rows that a part lacks, and its tables and figures."""
    if name in SCRIPTS:
        SCRIPTS[name].run(args)
        return
    part, given = PARTS[name], options(name, args)
    runner.complete_all(part.plan(given), given)
    part.report(given)


def main(argv: list[str] | None = None) -> dict[str, Left]:
    args = parse_args(argv)
    found = {name: left(name, args) for name in args.parts}
    for name, each in (found | {"everything": runner.total(found.values())}).items():
        print(f"{name}: {each.left} of {each.wanted} rows left", flush=True)
    if not args.dry_run:
        for name in args.parts:
            complete(name, args)
    return found


if __name__ == "__main__":
    main()
