"""Nodes of a graph -> blocks with few edges between them.

:func:`recursive_partition` reads the graph, and a method of `methods.py` gives every node a block:
METIS, halves of halves (`bisection.py`), or ranges of a Hilbert curve. `working_set.py` counts the
bytes that a block needs.
"""

from .methods import METHODS
from .partition import Partition, check_order
from .recursive import recursive_partition

__all__ = ["METHODS", "Partition", "check_order", "recursive_partition"]
