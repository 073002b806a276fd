"""Examples beside the study that keep a row for each run, too; they run by themselves."""

import importlib
import importlib.util
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pandas as pd
import runner
from runner import Key, Left, Table

EXAMPLES = Path(__file__).parent.parent


class Script(NamedTuple):
    """A script of examples/, which writes NAME.csv in its --output."""

    name: str
    wanted: Callable[[ModuleType, bool], list[Key]]  # by its own names; of the quick setting or not
    data: str | None = None  # its folder in that of the data, if it reads any

    @property
    def file(self) -> Path:
        return EXAMPLES / "benchmarks" / f"{self.name}.py"

    def left(self, args: Namespace) -> Left:
        """How many rows it lacks."""
        sys.path.insert(0, str(self.file.parent))
        try:
            module = importlib.import_module(self.name)
        finally:
            sys.path.remove(str(self.file.parent))
        current = getattr(module, "current", lambda rows: rows)  # without rows of other settings

        def read(path: Path) -> pd.DataFrame:
            return current(module.read(path))

        path = self.output(args) / f"{self.name}.csv"
        table = Table(path, self.wanted(module, args.quick), lambda *_: [])
        return runner.count_left(table, read)

    def run(self, args: Namespace) -> None:
        """Let it make what it lacks."""
        given = ["--output", self.output(args)]
        given += ["--quick"] if args.quick else []
        if self.data and args.data:
            given += ["--data", args.data / self.data]
        subprocess.run([sys.executable, self.file, *given], check=True)

    def output(self, args: Namespace) -> Path:
        """Where the whole study goes, or beside the published rows."""
        return args.output or (runner.QUICK_OUTPUT if args.quick else EXAMPLES / "results")


def _heterophilous(module: ModuleType, quick: bool) -> list[Key]:
    settings, splits = (module.QUICK, 2) if quick else (module.SETTINGS, 10)
    return [
        key
        for name, how in settings.items()
        for key in runner.keys(dataset=[name], method=module.variants_of(how), seed=range(splits))
    ]


def _denoising(module: ModuleType, quick: bool) -> list[Key]:
    pictures, seeds = (module.DRAWN, 1) if quick else (module.PICTURES, 3)
    has_bm3d = importlib.util.find_spec("bm3d") is not None
    methods = [each for each in module.METHODS if each != "bm3d" or has_bm3d]
    columns = {"picture": pictures, "kind": ["colour"], "noise": [0.1], "method": methods}
    return runner.keys(**columns, seed=range(seeds))


SCRIPTS = {
    "heterophilous": Script("heterophilous", _heterophilous, "heterophilous"),
    "denoising": Script("denoising", _denoising),
}
SCRIPTS = {name: script for name, script in SCRIPTS.items() if script.file.exists()}
