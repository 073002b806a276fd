"""Triangles and squares on the edges of a graph, and the curvature that comes of them.

Every backend has the functions of :mod:`~.reference`. A *slot* is an entry of a symmetric
:class:`~jsem_pyg.kernels.csr.CSR` pattern without diagonal: one direction of one edge.

===========  =========================================================  ==========
"reference"  Python's sets: the definitions                             any device
"torch"      paths of two edges, looked up by binary search, in chunks  any device
"numba"      flags for the neighbours of a node, on all cores           CPU
===========  =========================================================  ==========
"""
