"""Stage 5: a graph that is large -> order, blocks and pieces of it, and fewer edges.

:func:`recursive_partition` splits the nodes into a :class:`Partition` of blocks that fit a cache or
a device. :func:`measured_cost` makes it follow the seconds that blocks have taken.
:func:`diffuse_file` diffuses an array that does not fit into memory, from file to file.

:func:`prune_edges` drops the edges that hardly conduct, and :func:`perturbation_bound` says what
that changes at most; :func:`rebuild_pays` whether a smaller graph is worth preparing.

Where one machine is not enough, :func:`distribute` gives every process of `torch.distributed` its
rows of the graph, a :class:`DistributedGraph`: see :mod:`jsem_pyg.partition.distributed`.
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
from .measure import measured_cost
from .perturbation import Perturbation
from .pruning import PrunedGraph, perturbation_bound, prune_edges
from .rebuilding import rebuild_pays
from .recursive import recursive_partition

__all__ = [
    "ColumnShare",
    "DistributedGraph",
    "DistributionPlan",
    "Partition",
    "Perturbation",
    "PrunedGraph",
    "Speed",
    "diffuse_file",
    "distribute",
    "load_part",
    "measure_speed",
    "measured_cost",
    "perturbation_bound",
    "plan",
    "prune_edges",
    "rebuild_pays",
    "recursive_partition",
    "save_parts",
    "sum_gradients",
]
