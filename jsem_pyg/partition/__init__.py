"""Between diffusion and what is built on it: order, blocks and pieces of a graph that is too large.

:func:`recursive_partition` splits the nodes into a :class:`Partition` of blocks that fit a cache or
a device. :func:`diffuse_file` diffuses an array that does not fit into memory, from file to file.

Where one machine is not enough, :func:`distribute` gives every process of `torch.distributed` its
rows of the graph, a :class:`DistributedGraph`: see :mod:`.distributed`.
"""

from .blocks import Partition
from .diffuse_file import diffuse_file
from .distributed import (
    ColumnShare,
    DistributedGraph,
    DistributionPlan,
    Speed,
    distribute,
    load_part,
    measure_speed,
    plan,
    save_parts,
    sum_gradients,
)
from .recursive import recursive_partition

__all__ = [
    "ColumnShare",
    "DistributedGraph",
    "DistributionPlan",
    "Partition",
    "Speed",
    "diffuse_file",
    "distribute",
    "load_part",
    "measure_speed",
    "plan",
    "recursive_partition",
    "save_parts",
    "sum_gradients",
]
