"""Splits the nodes of a graph into blocks with few edges between them.

:func:`recursive_partition` reads the graph, and a method of `methods.py` gives every node a block:
METIS, or halves of halves.
"""

from .methods import METHODS
from .partition import Partition
from .recursive import recursive_partition

__all__ = ["METHODS", "Partition", "recursive_partition"]
