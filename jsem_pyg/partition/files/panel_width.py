"""The number of columns that are diffused at once: as many as fit into memory, by measurement."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from .memory import extra_memory, in_words, resident_memory
from .panel_file import BLOCK

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

    width: int  # columns of a panel, a multiple of the unit unless it is all of them
    strip: int  # rows of all channels, in the copies before and after


def choose_width(limit: int, sizes: Sizes, diffuse: Callable[[int], object]) -> Budget:
    """Measure how many columns the limit allows.

    While a panel is diffused the next one is in memory already, and the result of the last one is
    still there. The memory that diffusing takes beside them depends on the kernels, so it is
    measured: for a single unit, then for as many columns as that surely allows.

    Args:
        limit: the most bytes that the process may hold.
        sizes: the sizes of the array.
        diffuse: diffuses that number of columns, and forgets them; a few terms are enough.

    Raises:
        ValueError: if the limit does not even allow a unit; the message has the least limit.
    """
    unit, beside = sizes.unit, sizes.column * (1 + sizes.scales)
    diffuse(unit)  # so that all that is prepared once is prepared
    held = resident_memory()
    slack = int(_SLACK * limit) + _BLOCKS * BLOCK
    free = limit - held - slack
    first = max(extra_memory(lambda: diffuse(unit)), unit * beside)
    needed = max(1, first + unit * beside)
    if needed > free:
        least = (held + needed + _BLOCKS * BLOCK) / (1 - _SLACK)
        raise ValueError(
            f"Expected 'memory' to be at least {in_words(1.01 * least)} for {sizes.num_nodes} "
            f"nodes (got {in_words(limit)}): {in_words(held)} are held already, by libraries, the "
            f"graph and all else in this process, and {unit} columns, the fewest, "
            f"take {in_words(needed)}."
        )
    width = min(sizes.channels, unit * (free // needed))
    if unit < width < sizes.channels:
        second = max(extra_memory(lambda: diffuse(width)), width * beside)
        column = beside + max(beside, (second - first) / (width - unit))
        width = max(width, int((free - second - width * beside) / column) + width)
    row = sizes.channels * sizes.itemsize
    strip = max(1, min(16 * BLOCK, free // 8) // max(1, row))
    return Budget(_balanced(width, sizes), strip)


def _balanced(width: int, sizes: Sizes) -> int:
    """The width of panels of one size, as few as panels of at most `width` would be, in units."""
    if width >= sizes.channels:
        return max(1, sizes.channels)
    together = sizes.unit * torch.get_num_threads()
    step = together if width >= together else sizes.unit
    width = width // step * step
    panels = -(-sizes.channels // width)
    return min(width, -(-sizes.channels // (panels * step)) * step)
