"""Stage 4: weighted edges -> a symmetric linear operator S with its spectrum in [-1, 1].

:func:`laplacian_operator` makes the operator of a prepared graph, anew at every training step,
:func:`hypergraph_operator` that of a hypergraph, and :func:`hodge_operator` those of flows on
edges. An :class:`Operator` of your own needs no more than a method that applies it: hand it to
:func:`~jsem_pyg.diffusion.diffuse`.
"""

from ..kernels.chebyshev import AdjointOperator, Operator
from .hodge import hodge_operator
from .hypergraph import hypergraph_operator
from .laplacian import HeatOperator, laplacian_operator

__all__ = [
    "AdjointOperator",
    "HeatOperator",
    "Operator",
    "hodge_operator",
    "hypergraph_operator",
    "laplacian_operator",
]
