"""Stage 3: edges -> a few numbers per edge.

:func:`forman_curvature` is the discrete curvature of an edge. It separates bridges between
clusters from edges inside; :func:`jaccard_overlap` is the share of neighbours that its ends have in
common. :func:`robust_standardize` brings them to a common scale.
"""

from .forman_ricci import forman_curvature, jaccard_overlap
from .standardize import robust_standardize

__all__ = ["forman_curvature", "jaccard_overlap", "robust_standardize"]
