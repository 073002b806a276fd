"""Exact linear transport between a few dozen points, for many problems at once.

Each backend has the function ``linear_transport`` of :mod:`~.reference`: vertices of the polytope
of plans, and the dual potentials.

===========  ====================================  ==========
"reference"  linear programs by SciPy's HiGHS      CPU
"numba"      shortest augmenting paths, compiled   CPU
===========  ====================================  ==========
"""
