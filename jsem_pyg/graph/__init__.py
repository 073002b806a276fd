"""Stage 2: edges -> a structure that is sorted and checked once.

:class:`GraphStructure`, :class:`HypergraphStructure` and :class:`SimplicialStructure` (edges and
triangles) are what every later stage works on, and own all that follows from the pattern. The graph
of a caller becomes one in `reader.py`, and nowhere else, which keeps the last one for later calls.
"""

from .hypergraph_structure import HypergraphStructure
from .simplicial_structure import SimplicialStructure
from .structure import GraphStructure

__all__ = ["GraphStructure", "HypergraphStructure", "SimplicialStructure"]
