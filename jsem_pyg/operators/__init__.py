"""Stage 3: weighted edges -> a symmetric linear operator S with its spectrum in [-1, 1].

:class:`GraphStructure` is the part that is prepared once for a graph (sorting, pairing, checks);
:func:`laplacian_operator` is the part that is computed anew at every training step (values).
:class:`HypergraphStructure` and :func:`hypergraph_operator` are the same for hypergraphs.
"""

from .adjacency import read_adjacency
from .cache import CheckMemory, GraphMemory, LastSeen, StructureCache
from .hypergraph import HypergraphOperator, hypergraph_operator
from .hypergraph_forms import HypergraphCache, read_hypergraph
from .hypergraph_structure import HypergraphStructure
from .laplacian import HeatOperator, laplacian_operator
from .structure import GraphStructure

__all__ = [
    "CheckMemory",
    "GraphMemory",
    "GraphStructure",
    "HeatOperator",
    "HypergraphCache",
    "HypergraphOperator",
    "HypergraphStructure",
    "LastSeen",
    "StructureCache",
    "hypergraph_operator",
    "laplacian_operator",
    "read_adjacency",
    "read_hypergraph",
]
