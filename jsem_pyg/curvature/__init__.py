"""Stage 2: edges -> one number per edge.

:func:`forman_curvature` is the discrete curvature of an edge, which tells the bridges between
clusters from the edges inside; :func:`robust_standardize` brings it to a common scale.
"""

from .forman_ricci import forman_curvature
from .standardize import robust_standardize

__all__ = ["forman_curvature", "robust_standardize"]
