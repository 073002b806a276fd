"""Stage 6: a large graph -> blocks, fewer edges, columns from the disk, rows on many processes.

:func:`recursive_partition` splits the nodes into a :class:`Partition` of blocks that fit a cache, a
device or a process. :func:`prune_edges` drops the edges that hardly conduct. :func:`diffuse_file`
diffuses an array that does not fit into memory, from file to file. :func:`distribute` gives every
process of `torch.distributed` its rows of the graph, a :class:`DistributedGraph`.

See :mod:`~jsem_pyg.partition.split`, `pruning.py`, :mod:`~jsem_pyg.partition.files` and
:mod:`~jsem_pyg.partition.processes`.
"""

from .files import diffuse_file
from .processes import DistributedGraph, distribute, sum_gradients
from .pruning import prune_edges
from .split import Partition, recursive_partition

__all__ = [
    "DistributedGraph",
    "Partition",
    "diffuse_file",
    "distribute",
    "prune_edges",
    "recursive_partition",
    "sum_gradients",
]
