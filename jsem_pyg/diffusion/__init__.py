"""Stage 4: operator and signal -> diffused signal, Y = exp(-tL) X.

:func:`heat_diffusion` is the fast, differentiable way for graphs of any size,
:func:`hypergraph_diffusion` the same on hypergraphs, and :func:`exact_heat_diffusion` the dense one
to compare it with. :func:`diffusion_cosine` asks how alike the ends of each edge are afterwards.
"""

from .edge_cosine import diffusion_cosine
from .exact import dense_laplacian, exact_heat_diffusion
from .functional import heat_diffusion
from .heat_coefficients import heat_coefficients, heat_degree, truncation_bound
from .hypergraph import hypergraph_diffusion

__all__ = [
    "dense_laplacian",
    "diffusion_cosine",
    "exact_heat_diffusion",
    "heat_coefficients",
    "heat_degree",
    "heat_diffusion",
    "hypergraph_diffusion",
    "truncation_bound",
]
