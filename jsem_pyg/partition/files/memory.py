"""The memory that a process may hold, and how much of an array is worked on at once in it."""

import re
import threading
from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

import torch

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_PATTERN = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?I?)B\s*", re.IGNORECASE)

BLOCK = 4 << 20  # bytes: the most that is copied between a file and an array at once

_EVERY = 0.002  # seconds between two looks
_CACHE_LINE = 64  # bytes: kernels work on as many columns at least

# Memory that is left free, as a share of the limit and in blocks that are copied: allocators take
# more than is asked for.
_SLACK, _BLOCKS = 0.02, 3


class Sizes(NamedTuple):
    """The sizes of the array."""

    num_nodes: int
    channels: int
    scales: int
    itemsize: int  # bytes of a number

    @property
    def unit(self) -> int:
        """The fewest columns that are diffused together."""
        return max(1, min(self.channels, _CACHE_LINE // self.itemsize))

    @property
    def column(self) -> int:
        """The bytes of a column before it is diffused."""
        return self.num_nodes * self.itemsize


class Budget(NamedTuple):
    """Sizes of reads and writes."""

    width: int  # columns that are diffused at once, a multiple of the unit unless all of them
    strip: int  # rows of all channels, in the copies before and after


def choose_width(limit: int, sizes: Sizes, diffuse: Callable[[int], object]) -> Budget:
    """Measure how many columns the limit allows.

    While columns are diffused the next ones are in memory already, and the result of the last ones
    is still there. The memory that diffusing takes beside them depends on the kernels, so it is
    measured: for a single unit, then for as many columns as that surely allows.

    Args:
        limit: the most bytes that the process may hold.
        sizes: the sizes of the array.
        diffuse: diffuses that number of columns, and forgets them; a few terms are enough.

    Raises:
        ValueError: if the limit does not even allow a unit; the message has the least limit.
    """
    unit, beside = sizes.unit, sizes.unit * sizes.column * (1 + sizes.scales)
    diffuse(unit)  # so that all that is prepared once is prepared
    held = resident_memory()
    free = limit - held - int(_SLACK * limit) - _BLOCKS * BLOCK
    needed = max(1, max(extra_memory(lambda: diffuse(unit)), beside) + beside)
    if needed > free:
        least = (held + needed + _BLOCKS * BLOCK) / (1 - _SLACK)
        raise ValueError(
            f"Expected 'memory' to be at least {in_words(1.01 * least)} for {sizes.num_nodes} "
            f"nodes (got {in_words(limit)}): {in_words(held)} are held already, by libraries, the "
            f"graph and all else in this process, and {unit} columns, the fewest, "
            f"take {in_words(needed)}."
        )
    units = free // needed
    if 1 < units < sizes.channels / unit:  # more of them may share what is fixed
        second = max(extra_memory(lambda: diffuse(units * unit)), units * beside)
        each = beside + max(beside, (second - needed + beside) / (units - 1))
        units += max(0, int((free - second - units * beside) / each))
    units -= units % min(units, torch.get_num_threads())  # as many for each thread
    row = max(1, sizes.channels * sizes.itemsize)
    return Budget(
        max(1, min(sizes.channels, unit * units)), max(1, min(16 * BLOCK, free // 8) // row)
    )


def resident_memory() -> int:
    """The bytes of this process that are in memory, shared libraries included."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def extra_memory(work: Callable[[], object]) -> int:
    """The most bytes that are in memory while `work` is called, beyond those before."""
    done, before = threading.Event(), resident_memory()
    most = before

    def look() -> None:
        nonlocal most
        while not done.wait(_EVERY):
            most = max(most, resident_memory())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return most - before


def parse_memory(name: str, value: Any) -> int:
    """A number of bytes, from an integer or from text such as "1GB", "512MB" or "1.5 GiB".

    Example:
        >>> parse_memory("memory", "1.5GB"), parse_memory("memory", "1KiB")
        (1500000000, 1024)
    """
    expected = (
        f"Expected '{name}' to be a number of bytes, at least one, or text such as '512MB', "
        f"'1.5GB' or '2GiB' (got {value!r})."
    )
    if isinstance(value, str):
        found = _PATTERN.fullmatch(value)
        unit = found.group(2).upper() if found else "I"
        if found is None or unit == "I":
            raise ValueError(expected)
        num_bytes = int(float(found.group(1)) * (_UNITS | _BINARY)[unit])
    elif isinstance(value, Integral) and not isinstance(value, bool):
        num_bytes = int(value)
    else:
        raise TypeError(expected)
    if num_bytes <= 0:
        raise ValueError(expected)
    return num_bytes


def in_words(num_bytes: float) -> str:
    """A number of bytes with a unit.

    Example:
        >>> in_words(1_234_567_890), in_words(5)
        ('1.23 GB', '5 B')
    """
    unit = next((each for each in ("G", "M", "K") if num_bytes >= _UNITS[each]), "")
    return f"{num_bytes / _UNITS[unit]:.3g} {unit}B"
