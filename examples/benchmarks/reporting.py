"""What the benchmarks share: command lines, time, memory, processes, rows of files and tables."""

import argparse
import ctypes
import platform
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import torch

Call = Callable[[], Any]


def parser_of(doc: str, output: str = "output/benchmarks") -> argparse.ArgumentParser:
    """A command line with the first line of a docstring, and a folder to write to."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(output), help="folder")
    return parser


class PeakMemory(threading.Thread):
    """Samples the resident memory of the process every 2 ms, until it is stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.process, self.done = psutil.Process(), threading.Event()
        give_back_what_is_free()
        self.base = self.peak = self.process.memory_info().rss
        self.start()

    def run(self) -> None:
        """Sample."""
        while not self.done.wait(0.002):
            self.peak = max(self.peak, self.process.memory_info().rss)

    def stop(self) -> int:
        """Return the most memory that was resident, beyond that at the start, in bytes."""
        self.done.set()
        self.join()
        return self.peak - self.base


def give_back_what_is_free() -> None:
    """Memory that the allocator keeps for later would be taken without being seen."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # of the GNU C library
        libc.malloc_trim(0)


def timed(call: Call, clock: Callable[[], float] = time.process_time) -> tuple[Any, float]:
    """What a call returns, and its seconds."""
    start = clock()
    return call(), clock() - start


def medians(
    calls: dict[str, Call], repeats: int, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Median seconds of each, called in turn, after one round that compiles and prepares."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats + 1):
        for name, call in calls.items():
            taken[name].append(timed(call, clock)[1])
    return {name: statistics.median(seconds[1:]) for name, seconds in taken.items()}


def isolated(work: Callable[..., Any], *given: Any, limit: float | None = None) -> Any:
    """The result of a call in a fresh process, or a row that notes why there is none."""
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    try:
        return pool.submit(work, *given).result(timeout=limit)
    except TimeoutError:
        return {"note": f"no answer after {limit:g} s"}
    except Exception as error:
        return {"note": f"{type(error).__name__}: {str(error)[:200]}"}
    finally:
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown(wait=False)


class Rows:
    """Rows of a CSV file, written as soon as they are there; what it has is not run again."""

    def __init__(self, path: Path, *key: str) -> None:
        self.path, self.key = path, key
        path.parent.mkdir(parents=True, exist_ok=True)
        self.rows = pd.read_csv(path).to_dict("records") if path.exists() else []

    def has(self, *key: object) -> bool:
        """Whether a row is there, and none that only notes why it lacks an answer."""
        place = self._places().get(self._plain(key))
        return place is not None and not isinstance(self.rows[place].get("note"), str)

    def add(self, row: dict[str, Any]) -> None:
        """Write the file anew with one row more, or another one; print the row."""
        print(row, flush=True)
        place = self._places().get(self._plain(row[name] for name in self.key), len(self.rows))
        self.rows[place : place + 1] = [row]
        draft = self.path.with_suffix(".part")
        self.table().to_csv(draft, index=False)
        draft.replace(self.path)

    def table(self) -> pd.DataFrame:
        """All rows."""
        return pd.DataFrame(self.rows, columns=None if self.rows else list(self.key))

    def _places(self) -> dict[tuple[str, ...], int]:
        keys = [self._plain(row[name] for name in self.key) for row in self.rows]
        return {key: place for place, key in enumerate(keys)}

    @staticmethod
    def _plain(key: Any) -> tuple[str, ...]:
        return tuple(each if isinstance(each, str) else f"{each:g}" for each in key)


def machine() -> str:
    """The processor, the number of threads, and the versions that matter."""
    return (
        f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}, Python {platform.python_version()}"
    )


def exponent(size: pd.Series, value: pd.Series) -> float:
    """The e of value ~ size^e: least squares of the logarithms."""
    return float(np.polyfit(np.log(size), np.log(value), 1)[0])


def spread(values: pd.Series, digits: int = 3) -> str:
    """Mean ± standard deviation."""
    return f"{values.mean():.{digits}f} ± {values.std(ddof=0):.{digits}f}"


def markdown(table: pd.DataFrame) -> str:
    """A table without its index; numbers with three digits, nothing for NaN."""
    lines = [f"| {' | '.join(map(str, table.columns))} |", "| --- " * len(table.columns) + "|"]
    for row in table.itertuples(index=False):
        lines.append(f"| {' | '.join(_cell(value) for value in row)} |")
    return "\n".join(lines) + "\n"


def write_table(table: pd.DataFrame, folder: Path, name: str, notes: list[str]) -> None:
    """Write `name`.csv and, under the notes, `name`.md; and print the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / f"{name}.csv", index=False)
    text = "\n\n".join([*notes, markdown(table)])
    (folder / f"{name}.md").write_text(text)
    print(text)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.3g}"
    return str(value)
