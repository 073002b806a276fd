"""Stage 5: a graph that is large -> order, blocks and pieces of it, and fewer edges.

:func:`recursive_partition` splits the nodes into a :class:`Partition` of blocks that fit a cache or
a device.

:func:`prune_edges` drops the edges that hardly conduct, and :func:`perturbation_bound` says what
that changes at most; :func:`rebuild_pays` whether a smaller graph is worth preparing.
"""

from .blocks import Partition
from .perturbation import Perturbation
from .pruning import PrunedGraph, perturbation_bound, prune_edges
from .rebuilding import rebuild_pays
from .recursive import recursive_partition

__all__ = [
    "Partition",
    "Perturbation",
    "PrunedGraph",
    "perturbation_bound",
    "prune_edges",
    "rebuild_pays",
    "recursive_partition",
]
