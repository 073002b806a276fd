"""Stage 5: a graph that is large -> order, blocks and pieces of it.

:func:`recursive_partition` splits the nodes into a :class:`Partition` of blocks that fit a cache or
a device. :func:`measured_cost` makes it follow the seconds that blocks have taken.
"""

from .blocks import Partition
from .measure import measured_cost
from .recursive import recursive_partition

__all__ = ["Partition", "measured_cost", "recursive_partition"]
