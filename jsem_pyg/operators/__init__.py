"""Stage 3: weighted edges -> a symmetric linear operator S with its spectrum in [-1, 1].

:class:`GraphStructure` is the part that is prepared once for a graph (sorting, pairing, checks);
:func:`laplacian_operator` is the part that is computed anew at every training step (values).
"""

from .adjacency import read_adjacency
from .cache import CheckMemory, GraphMemory, LastSeen, StructureCache
from .laplacian import HeatOperator, laplacian_operator
from .structure import GraphStructure

__all__ = [
    "CheckMemory",
    "GraphMemory",
    "GraphStructure",
    "HeatOperator",
    "LastSeen",
    "StructureCache",
    "laplacian_operator",
    "read_adjacency",
]
