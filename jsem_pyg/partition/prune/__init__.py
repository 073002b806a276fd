"""Edges that hardly conduct are dropped, as far as no node misses them.

:func:`prune_edges` does it once; :class:`~jsem_pyg.training.PruneEdges` does it in training. Both
take from `spare_edges.py` which edges a graph can spare.
"""

from .prune_edges import PrunedGraph, prune_edges

__all__ = ["PrunedGraph", "prune_edges"]
