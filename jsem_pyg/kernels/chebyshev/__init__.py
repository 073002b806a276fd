r"""Polynomials of a symmetric operator, applied to columns: sum over k of c_k T_k(S) X.

:mod:`.operator` defines operators; every backend's module has one named ``SparseOperator``,
made of a pattern and its values [nnz], whose method ``series`` maps

``(x [N, M], coefficients [K + 1, S, channels]) -> [S, N, M]``

for S scales, with one coefficient for each term, scale and column (`channels` is 1 or M). All are
differentiable in the operator's values, `x` and `coefficients`. The adjoint relies on the symmetry
of S, so that of the gradient in the values only the sum over (i, j) and (j, i) has a meaning.
"""

from .adjoint import AdjointOperator
from .operator import Operator
from .series import SeriesOperator

__all__ = ["AdjointOperator", "Operator", "SeriesOperator"]
