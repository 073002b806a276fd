"""Stage 5: a graph -> an order, blocks and parts of it that fit a cache, a device or a machine.

:func:`prune_edges` drops the edges that hardly conduct, and :func:`perturbation_bound` says
what that changes at most; :func:`rebuild_pays` whether a smaller graph is worth preparing.
"""

from .perturbation import Perturbation
from .pruning import PrunedGraph, perturbation_bound, prune_edges
from .rebuilding import rebuild_pays

__all__ = ["Perturbation", "PrunedGraph", "perturbation_bound", "prune_edges", "rebuild_pays"]
