"""Stage 5: operator and signal -> diffused signal, Y = exp(-tL) X.

:func:`heat_diffusion` is the fast, differentiable way for graphs of any size; hypergraphs and
flows on edges have layers (:mod:`jsem_pyg.nn`). :func:`diffuse` takes any operator, also one of
your own, and :func:`heat_kernel_columns` shows how the heat of single nodes spreads. Other
functions of the Laplacian than the exponential are in :mod:`~jsem_pyg.diffusion.filters`;
:func:`expm_multiply` takes any symmetric matrix.
"""

from . import registered_op  # noqa: F401 (the op that compiled code calls)
from .diffuse import diffuse
from .expm_multiply import expm_multiply
from .functional import heat_diffusion, heat_kernel_columns
from .low_modes import low_modes
from .sketch import sketch_nodes
from .times import heat_coefficients, heat_degree

__all__ = [
    "diffuse",
    "expm_multiply",
    "heat_coefficients",
    "heat_degree",
    "heat_diffusion",
    "heat_kernel_columns",
    "low_modes",
    "sketch_nodes",
]
