r"""Products of the rows at both ends of edges, and never a pair of rows for every edge in memory.

.. math::
    d_e = \sum_c a_{i(e) c} \, b_{j(e) c}, \qquad
    s_{rc} = \sum_{e: \, i(e) = r} g_e \, z_{j(e) c}

The first is a product of two dense matrices, sampled at edges; the second, a product of a sparse
matrix and a dense one, is its derivative. They are each other's derivatives, to any order.

===========  =============================================  ==========
"reference"  a pair of rows for every edge: the definition  any device
"torch"      the same for some edges at a time              any device
"numba"      fused loops on all cores, compiled             CPU
===========  =============================================  ==========
"""

from .function import edge_dot

__all__ = ["edge_dot"]
