"""Between diffusion and what is built on it: order, blocks and pieces of a graph that is too large.

:func:`recursive_partition` splits the nodes into a :class:`Partition` of blocks that fit a cache or
a device.
"""

from .blocks import Partition
from .recursive import recursive_partition

__all__ = ["Partition", "recursive_partition"]
