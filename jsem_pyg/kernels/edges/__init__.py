"""From a list of edges to a sorted pattern, with the slot of the reverse of every edge.

Every backend has the function ``sort_edges`` of :mod:`~.reference`.

===========  =============================================  ==========
"reference"  Python's dictionaries: the definition          any device
"torch"      sorting by a key                               any device
"numba"      counting, by column and by row, compiled       CPU
===========  =============================================  ==========
"""

from .reference import SortedEdges

__all__ = ["SortedEdges"]
