"""Stage 3: weighted edges -> a symmetric linear operator S with its spectrum in [-1, 1].

:func:`laplacian_operator` makes the operator of a prepared graph, anew at every training step, and
:func:`hypergraph_operator` that of a hypergraph. An :class:`Operator` of your own needs no more
than a method that applies it: hand it to :func:`~jsem_pyg.diffusion.diffuse`.
"""

from ..graph import GraphStructure, HypergraphStructure
from ..kernels.chebyshev import AdjointOperator, Operator, SeriesOperator
from .heat_operator import HeatOperator, Scaling
from .hypergraph import HypergraphOperator, hypergraph_operator
from .laplacian import laplacian_operator

__all__ = [
    "AdjointOperator",
    "GraphStructure",
    "HeatOperator",
    "HypergraphOperator",
    "HypergraphStructure",
    "Operator",
    "Scaling",
    "SeriesOperator",
    "hypergraph_operator",
    "laplacian_operator",
]
