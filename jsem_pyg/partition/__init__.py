"""Stage 5: a graph that is large -> order, blocks and pieces of it.

:func:`recursive_partition` splits the nodes into a :class:`Partition` of blocks that fit a cache or
a device. :func:`measured_cost` makes it follow the seconds that blocks have taken.

Where one machine is not enough, :func:`distribute` gives every process of `torch.distributed` its
rows of the graph, a :class:`DistributedGraph`: see :mod:`.distributed`.
"""

from .blocks import Partition
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
from .measure import measured_cost
from .recursive import recursive_partition

__all__ = [
    "ColumnShare",
    "DistributedGraph",
    "DistributionPlan",
    "Partition",
    "Speed",
    "distribute",
    "load_part",
    "measure_speed",
    "measured_cost",
    "plan",
    "recursive_partition",
    "save_parts",
    "sum_gradients",
]
