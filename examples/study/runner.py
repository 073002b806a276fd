"""Tables that are made row by row: what is in the CSV already is not run again.

A part of the study is a list of `Table`s: where its rows are written, which there are to be, and
how one is made. `complete` makes what is missing; a run that was killed goes on where it stopped,
since a file is written anew, whole or not at all, as soon as a row is there.
"""

import argparse
import itertools
import logging
import os
import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from data_sets import DATA_SETS, load

log = logging.getLogger(__name__)
SECONDS = "cpu_seconds"
QUICK_OUTPUT = Path("output/study")

Key = dict[str, Any]  # what a row is of: its first columns
Row = dict[str, Any]


class Table(NamedTuple):
    """Rows that a file is to have, and what makes them."""

    path: Path
    wanted: list[Key]
    make: Callable[[Any, Key], list[Row]]  # one row, or several that belong together
    load: Callable[[str, Path | None, bool], Any] = load  # a data set by its name


def keys(**columns: Iterable[Any]) -> list[Key]:
    """All combinations, the last column the fastest; the first is "dataset"."""
    return [dict(zip(columns, each, strict=True)) for each in itertools.product(*columns.values())]


def missing(rows: pd.DataFrame, wanted: list[Key]) -> list[Key]:
    """What of the keys there is no row of."""
    if not wanted:
        return []
    names = list(wanted[0])
    done = set(rows.reindex(columns=names).itertuples(index=False, name=None))
    return [key for key in wanted if tuple(key.values()) not in done]


def complete(table: Table, load_set: Callable[[str], Any]) -> None:
    """Make what is missing, and write it as soon as it is there."""
    for key in missing(read(table.path), table.wanted):
        study_set = load_set(key["dataset"])
        rows = [key | row for row in table.make(study_set, key)]
        append(table.path, rows)
        for row in rows:
            log.info("%s", {name: value for name, value in row.items() if name != "curve"})


def complete_all(tables: Iterable[Table], args: argparse.Namespace) -> None:
    """Make what is missing of several tables; a data set is read once, and when it is needed."""
    load_set = cache(lambda load, name: load(name, args.data, args.quick))
    for table in tables:
        complete(table, partial(load_set, table.load))


def run(
    parse_args: Callable[[list[str] | None], argparse.Namespace],
    plan: Callable[[argparse.Namespace], list[Table]],
    report: Callable[[argparse.Namespace], pd.DataFrame],
    argv: list[str] | None = None,
) -> pd.DataFrame:
    """Make the rows that a part of the study lacks, then its tables: all its rows."""
    args = parse_args(argv)
    complete_all(plan(args), args)
    return report(args)


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and its processor seconds, which other programs hardly change."""
    start = time.process_time()
    found = run()
    return found, round(time.process_time() - start, 3)


def read(path: Path) -> pd.DataFrame:
    """The rows so far; none if there is no file."""
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def append(path: Path, rows: list[Row]) -> None:
    """Write the file anew with some rows more, whole or not at all."""
    before = read(path).to_dict("records")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    pd.DataFrame([*before, *rows]).to_csv(temporary, index=False, float_format="%.6g")
    os.replace(temporary, path)


def make_parser(
    doc: str, seeds: int | None, sets: Iterable[str] = DATA_SETS, choices: Iterable[str] = DATA_SETS
) -> argparse.ArgumentParser:
    """What all command lines have in common; None seeds are as many as were published."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the data; digits need none")
    parser.add_argument("--sets", nargs="+", choices=list(choices), default=list(sets))
    parser.add_argument("--seeds", type=int, default=seeds, help="seeds 0 .. n - 1 of all")
    parser.add_argument("--output", type=Path, help="results/ beside this file, or output/study")
    parser.add_argument("--quick", action="store_true", help="a few digits, short training")
    return parser


def parse(parser: argparse.ArgumentParser, argv: list[str] | None) -> argparse.Namespace:
    """Read a command line; a quick run never mixes with the published one."""
    args = parser.parse_args(argv)
    if args.output is None:
        args.output = QUICK_OUTPUT if args.quick else Path(__file__).parent / "results"
    if args.quick:
        args.sets, args.seeds = ["digits"], min(args.seeds or 2, 2)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    log.setLevel(logging.INFO)
    return args
