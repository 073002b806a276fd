"""How many rows are left, and how long they take: from the seconds of rows that are there."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import runner
from runner import SECONDS, Key, Table

ROUNDS = 50
PUBLISHED = Path(__file__).parent / "results"


class Forecast(NamedTuple):
    """What is left of some tables."""

    wanted: int  # rows, or groups of rows that are written together
    left: int
    seconds: float  # processor seconds of those whose like was timed
    unknown: int  # those whose like was not

    def __str__(self) -> str:
        text = f"{self.left} of {self.wanted} rows left"
        if self.left > self.unknown:
            text += f", about {as_time(self.seconds)}"
        if self.unknown:
            text += f", and {self.unknown} of unknown duration"
        return text


def total(forecasts: Iterable[Forecast]) -> Forecast:
    """What is left of several tables, or parts."""
    return Forecast(*map(sum, zip(*forecasts, strict=True)))


def forecast(
    table: Table,
    known: Path = PUBLISHED,
    read: Callable[[Path], pd.DataFrame] = runner.read,
) -> Forecast:
    """What is left of a table.

    A row takes as long as those of other seeds did, in the table's own file or that of the same
    name in `known`. Where a method was not run on a data set, its time on others counts, times how
    much longer other methods took here than there.
    """
    rows = read(table.path)
    left = runner.missing(rows, table.wanted)
    if not left:
        return Forecast(len(table.wanted), 0, 0.0, 0)
    if (known / table.path.name) != table.path:
        rows = pd.concat([rows, read(known / table.path.name)])
    costs = mean_seconds(rows, [name for name in left[0] if name != "seed"])
    each = pd.Series([costs.get(_without_seed(key), np.nan) for key in left])
    return Forecast(len(table.wanted), len(left), each.sum(), int(each.isna().sum()))


def mean_seconds(rows: pd.DataFrame, names: list[str]) -> dict[tuple, float]:
    """The seconds of each (data set, method ...), those that were never run filled in."""
    if SECONDS not in rows or rows[SECONDS].isna().all():
        return {}
    rows = rows.dropna(subset=SECONDS)
    # What takes a_m b_s for a method m and a set s, the first column, has logarithms that add.
    logs = np.log(rows.groupby(names)[SECONDS].mean().clip(lower=1e-3)).unstack(names[0])
    if isinstance(logs, pd.Series):  # nothing but data sets
        return {(name,): float(np.exp(value)) for name, value in logs.items()}
    of_method = logs.mean(axis=1)
    for _ in range(ROUNDS):  # least squares, in one direction after the other
        of_set = logs.sub(of_method, axis=0).mean()
        of_method = logs.sub(of_set, axis=1).mean(axis=1)
    filled = np.exp(logs.apply(lambda column: column.fillna(of_method + of_set[column.name])))
    found = filled.stack().reorder_levels(names)
    return {key: float(value) for key, value in found.items()}


def _without_seed(key: Key) -> tuple:
    return tuple(value for name, value in key.items() if name != "seed")


def as_time(seconds: float) -> str:
    """In the unit that a person would take."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
