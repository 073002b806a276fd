"""The memory that a process holds, may hold, and needs for a while."""

import re
import threading
from collections.abc import Callable
from numbers import Integral
from typing import Any

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_PATTERN = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?I?)B\s*", re.IGNORECASE)

_EVERY = 0.002  # seconds between two looks


def parse_memory(name: str, value: Any) -> int:
    """A number of bytes, from an integer or from text such as "1GB", "512MB" or "1.5 GiB".

    Raises:
        TypeError: if it is neither.
        ValueError: if the text is malformed, or it is less than a byte.

    Example:
        >>> parse_memory("memory", "1.5GB"), parse_memory("memory", "1KiB")
        (1500000000, 1024)
    """
    if isinstance(value, str):
        found = _PATTERN.fullmatch(value)
        unit = found.group(2).upper() if found else "?"
        if found is None or unit == "I":
            raise ValueError(
                f"Expected '{name}' to be a number of bytes, or text such as '512MB', '1.5GB' or "
                f"'2GiB' (got {value!r})."
            )
        num_bytes = int(float(found.group(1)) * (_UNITS | _BINARY)[unit])
    elif isinstance(value, Integral) and not isinstance(value, bool):
        num_bytes = int(value)
    else:
        raise TypeError(
            f"Expected '{name}' to be a number of bytes, or text such as '512MB' or '1.5GB' (got "
            f"{value!r})."
        )
    if num_bytes <= 0:
        raise ValueError(f"Expected '{name}' to be at least a byte (got {value!r}).")
    return num_bytes


def in_words(num_bytes: float) -> str:
    """A number of bytes with a unit.

    Example:
        >>> in_words(1_234_567_890), in_words(5)
        ('1.23 GB', '5 B')
    """
    for unit in ("B", "KB", "MB", "GB"):
        if num_bytes < 1000 or unit == "GB":
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    raise AssertionError


def resident_memory() -> int:
    """The bytes of this process that are in memory, shared libraries included."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def extra_memory(work: Callable[[], object]) -> int:
    """The most bytes that are in memory while `work` is called, beyond those before."""
    import psutil

    process, done = psutil.Process(), threading.Event()
    before = most = process.memory_info().rss

    def look() -> None:
        nonlocal most
        while not done.wait(_EVERY):
            most = max(most, process.memory_info().rss)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return int(most - before)
