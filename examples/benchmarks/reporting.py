"""What the benchmarks share: peak memory, the machine in words, and tables as CSV and Markdown."""

import ctypes
import platform
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import torch


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


def machine() -> str:
    """The processor, the number of threads, and the versions that matter."""
    return (
        f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}, Python {platform.python_version()}"
    )


def exponent(size: pd.Series, value: pd.Series) -> float:
    """The e of value ~ size^e: least squares of the logarithms."""
    return float(np.polyfit(np.log(size), np.log(value), 1)[0])


def write_table(table: pd.DataFrame, folder: Path, name: str, notes: list[str]) -> None:
    """Write `name`.csv and, under the notes, `name`.md; and print the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / f"{name}.csv", index=False)
    lines = [f"| {' | '.join(table.columns)} |", "| --- " * len(table.columns) + "|"]
    for row in table.itertuples(index=False):
        lines.append(f"| {' | '.join(_cell(value) for value in row)} |")
    text = "\n\n".join(notes) + "\n\n" + "\n".join(lines) + "\n"
    (folder / f"{name}.md").write_text(text)
    print(text)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.3g}"
    return str(value)
