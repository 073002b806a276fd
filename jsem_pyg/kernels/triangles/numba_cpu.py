"""Triangles and squares on the CPU, compiled, on all cores.

Nothing here computes in torch, whose idle threads would spin for some milliseconds on the cores
that the next kernel is to run on.
"""

from .numba_squares import square_counts
from .numba_triangles import forman, list_triangles, triangle_counts

__all__ = ["forman", "list_triangles", "square_counts", "triangle_counts"]
