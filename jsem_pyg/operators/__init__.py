"""Stage 4: weighted edges -> a symmetric linear operator S with its spectrum in [-1, 1].

:func:`laplacian_operator` makes the operator of a prepared graph, anew at every training step,
and `hypergraph.py` and `hodge.py` have those of hypergraphs and of flows on edges. An
:class:`Operator` of your own needs no more than a method that applies it: hand it to
:func:`~jsem_pyg.diffusion.diffuse`.
"""

from ..kernels.chebyshev import Operator
from .laplacian import HeatOperator, laplacian_operator

__all__ = ["HeatOperator", "Operator", "laplacian_operator"]
