"""The memory that a process may hold, and how much of an array is worked on at once in it."""

import re
import threading
from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from .flow import ColumnFlow
from .source import BLOCK

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_PATTERN = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?|[KMGT]I)B\s*", re.IGNORECASE)

_EVERY = 0.002  # seconds between two looks

# Memory that is left free, as a share of the limit and in blocks that are copied: allocators take
# more than is asked for.
_SLACK, _BLOCKS = 0.02, 3

_LARGEST_STRIP = 16 * BLOCK
_NO_LIMIT = 2**62  # bytes


class WorkSizes(NamedTuple):
    """How much is worked on at once."""

    width: int  # columns that are diffused, in whole units
    strip: int  # rows of all channels, in the copies before and after


def choose_sizes(limit: int, flow: ColumnFlow) -> WorkSizes:
    """Measure how many columns the limit allows.

    The memory that diffusing takes depends on the kernels, so it is measured: for the fewest
    columns, then for as many as that surely allows.

    Args:
        limit: the most bytes that the process may hold.
        flow: what diffuses columns.

    Raises:
        ValueError: if the limit does not even allow a unit; the message has the least limit.
    """
    if not flow.num_nodes or not flow.channels:
        return WorkSizes(1, 1)
    unit = flow.unit
    flow.try_out(unit)  # so that all that is prepared once is prepared
    held = resident_memory()
    reserve = _BLOCKS * BLOCK
    free = np.array([limit * (1 - _SLACK) - held - reserve, device_memory(flow.device)])
    one = _needed(flow, unit)
    if one[0] > free[0]:
        least = (held + one[0] + reserve) / (1 - _SLACK)
        raise ValueError(
            f"Expected 'memory' to be at least {in_words(1.01 * least)} for {flow.num_nodes} "
            f"nodes (got {in_words(limit)}): {in_words(held)} are held already, by libraries, the "
            f"graph and all else in this process, and {unit} columns, the fewest, take "
            f"{in_words(one[0])}."
        )
    if one[1] > free[1]:
        raise ValueError(
            f"Expected 'device' to have {in_words(one[1])} free, for {unit} columns of "
            f"{flow.num_nodes} nodes (got {in_words(free[1])} on '{flow.device}')."
        )
    units = int((free // one).min())
    if 1 < units < flow.channels / unit:  # more of them may share what is fixed
        more = (_needed(flow, units * unit) - one) / (units - 1)
        each = np.maximum(more, unit * _least(flow))
        units = 1 + int(((free - one) // each).min())
    units -= units % min(units, torch.get_num_threads())  # as many for each thread
    row = flow.channels * flow.dtype.itemsize
    strip = int(min(_LARGEST_STRIP, free[0] / 8)) // row
    return WorkSizes(min(flow.channels, unit * units), max(1, strip))


def _least(flow: ColumnFlow) -> NDArray[Any]:
    """Count bytes [2] of a column, the next one, and its result: here, and on a device."""
    column = flow.num_nodes * flow.dtype.itemsize
    on_device = 0 if flow.device.type == "cpu" else column * (1 + flow.scales)
    return np.array([column * (2 + flow.scales), max(1, on_device)])


def _needed(flow: ColumnFlow, count: int) -> NDArray[Any]:
    """Measure the bytes [2] that diffusing `count` columns takes: here, and on a device."""
    read_ahead = np.array([count * flow.num_nodes * flow.dtype.itemsize, 0])
    seen = extra_memory(lambda: flow.try_out(count), flow.device)
    return np.maximum(np.array(seen) + read_ahead, count * _least(flow))


def resident_memory() -> int:
    """Return the bytes of this process that are in memory, shared libraries included."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def device_memory(device: torch.device) -> int:
    """Return the bytes that are free on a GPU, with the bytes that torch keeps for later."""
    if device.type != "cuda":
        return _NO_LIMIT
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int((torch.cuda.mem_get_info(device)[0] + kept) * (1 - _SLACK))


def extra_memory(work: Callable[[], object], device: torch.device) -> tuple[int, int]:
    """Return the most bytes that `work` takes, in this process and on a GPU."""
    done, before = threading.Event(), resident_memory()
    most, on_device = before, 0

    def look() -> None:
        nonlocal most
        while not done.wait(_EVERY):
            most = max(most, resident_memory())

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        on_device = torch.cuda.memory_allocated(device)
    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    if device.type == "cuda":
        on_device = torch.cuda.max_memory_allocated(device) - on_device
    return most - before, on_device


def parse_memory(name: str, value: Any) -> int:
    """Read a number of bytes, an integer or text such as "1GB", "512MB" or "1.5 GiB".

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
        if found is None:
            raise ValueError(expected)
        num_bytes = int(float(found.group(1)) * (_UNITS | _BINARY)[found.group(2).upper()])
    elif isinstance(value, Integral) and not isinstance(value, bool):
        num_bytes = int(value)
    else:
        raise TypeError(expected)
    if num_bytes <= 0:
        raise ValueError(expected)
    return num_bytes


def in_words(num_bytes: float) -> str:
    """Write a number of bytes with a unit.

    Example:
        >>> in_words(1_234_567_890), in_words(5)
        ('1.23 GB', '5 B')
    """
    unit = next((name for name in ("G", "M", "K") if num_bytes >= _UNITS[name]), "")
    return f"{num_bytes / _UNITS[unit]:.3g} {unit}B"
