"""Between diffusion and what is built on it: order, blocks and pieces of a graph that is too large.

:func:`recursive_partition` splits the nodes into a :class:`Partition` of blocks that fit a cache or
a device. :func:`diffuse_file` diffuses an array that does not fit into memory, from file to file.
"""

from .blocks import Partition
from .diffuse_file import diffuse_file
from .recursive import recursive_partition

__all__ = ["Partition", "diffuse_file", "recursive_partition"]
