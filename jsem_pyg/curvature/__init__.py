"""Stage 2: edges -> a few numbers per edge.

:func:`forman_curvature` is the discrete curvature of an edge, which separates bridges between
clusters from edges inside; :func:`jaccard_overlap`, :func:`degree_contrast` and
:func:`distance_rank` look at an edge in other ways. :func:`robust_standardize` brings them to a
common scale, which a :class:`Standardizer` remembers for graphs to come.
"""

from .edge_geometry import degree_contrast, distance_rank, jaccard_overlap
from .forman_ricci import forman_curvature
from .standardize import Standardizer, robust_standardize

__all__ = [
    "Standardizer",
    "degree_contrast",
    "distance_rank",
    "forman_curvature",
    "jaccard_overlap",
    "robust_standardize",
]
