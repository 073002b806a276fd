"""Stage 2: edges -> a structure that is sorted and checked once.

:class:`GraphStructure` and :class:`HypergraphStructure` are what every later stage works on, and
own all that follows from the pattern; `simplicial_structure.py` has edges and triangles, for one
layer. The graph of a caller becomes a structure in `reader.py`, and nowhere else, which keeps the
last one for later calls.
"""

from .hypergraph_structure import HypergraphStructure
from .structure import GraphStructure

__all__ = ["GraphStructure", "HypergraphStructure"]
