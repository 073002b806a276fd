"""Counts of triangles and squares on the edges of a graph, for curvature.

Every backend has the signatures of :mod:`~.reference`. A *slot* is an entry of a symmetric CSR
pattern without diagonal, rows sorted by column: one direction of one edge.
"""

from .reference import reverse_slots, square_counts, triangle_sums

__all__ = ["reverse_slots", "square_counts", "triangle_sums"]
