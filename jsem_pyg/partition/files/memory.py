"""The memory that a process may hold, and how many columns are diffused at once in it."""

import re
from numbers import Integral
from typing import Any

import torch

from .flow import ColumnFlow

STRIP = 16 << 20  # bytes of the rows that are copied at once, before and after

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_PATTERN = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?|[KMGT]I)B\s*", re.IGNORECASE)

# Memory that is left free, as a share of the limit: allocators take more than is asked for.
_SLACK = 0.02
_STRIPS = 4  # one, its part for a panel, and the next, read and mapped


def choose_width(limit: int, flow: ColumnFlow, width: int | None = None) -> int:
    """Choose how many columns a panel has, beside what the process holds by now.

    Args:
        limit: the most bytes that the process may hold.
        flow: what diffuses columns.
        width: of the panels of a run that goes on; None: as many as fit.

    Raises:
        ValueError: if the limit does not allow `width`, or the fewest columns; the message has the
            least limit.
    """
    if not flow.num_nodes or not flow.channels:
        return 1
    flow.warm_up()  # compilers take memory as well
    held, unit = resident_memory(), width or flow.unit
    free = limit * (1 - _SLACK) - held
    one = needed(flow, unit)
    if one > free:
        least = 1.01 * (held + one) / (1 - _SLACK)
        raise ValueError(
            f"Expected 'memory' to be at least {in_words(least)} for {flow.num_nodes} nodes (got "
            f"{in_words(limit)}): {in_words(held)} are held already, by libraries, the graph and "
            f"all else in this process, and a panel of {unit} columns takes {in_words(one)}."
        )
    on_device = device_memory(flow.device)
    if one > on_device:
        raise ValueError(
            f"Expected 'device' to have {in_words(one)} free, for {unit} columns of "
            f"{flow.num_nodes} nodes (got {in_words(on_device)} on '{flow.device}')."
        )
    if width is not None:
        return width
    widths = range(unit, flow.channels + unit, unit)
    widest = max(each for each in widths if needed(flow, each) <= min(free, on_device))
    return min(widest, flow.channels)


def needed(flow: ColumnFlow, width: int) -> int:
    """Count the bytes that a panel of `width` columns takes.

    They are the columns, a copy in the type that is computed in, the next columns, and two copies
    of the result; and, for the columns that are worked on, two terms and the result. On a GPU two
    panels are on their way: this counts for the GPU, and for the host, whose memory for copies
    comes in powers of two.
    """
    if flow.device.type == "cpu":
        working = min(width, flow.unit * torch.get_num_threads())
        columns = (3 + 2 * flow.scales) * width + (2 + flow.scales) * working
    else:
        columns = 2 * (3 + 2 * flow.scales) * width
    return columns * flow.num_nodes * flow.itemsize + _STRIPS * STRIP


def resident_memory() -> int:
    """Return the bytes of this process that are in memory, shared libraries included."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def device_memory(device: torch.device) -> float:
    """Return the bytes that are free on a GPU, with the bytes that torch keeps for later."""
    if device.type != "cuda":
        return float("inf")
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return (torch.cuda.mem_get_info(device)[0] + kept) * (1 - _SLACK)


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
