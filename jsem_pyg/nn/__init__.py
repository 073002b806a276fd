"""Stage 8: layers. They own parameters and calls; the mathematics is in stages 4 and 5."""

from .anisotropic_cheb_conv import AnisotropicChebConv
from .anisotropic_diffusion import AnisotropicDiffusion
from .conductance import MLPConductance, SigmoidConductance
from .diffusion_classifier import DiffusionClassifier
from .hetero_cheb_conv import HeteroChebConv
from .hetero_diffusion import HeteroDiffusion
from .hypergraph_cheb_conv import HypergraphChebConv
from .hypergraph_diffusion import HypergraphDiffusion
from .relational_cheb_conv import RelationalChebConv
from .relational_features import relational_features
from .simplicial_diffusion import SimplicialDiffusion

__all__ = [
    "AnisotropicChebConv",
    "AnisotropicDiffusion",
    "DiffusionClassifier",
    "HeteroChebConv",
    "HeteroDiffusion",
    "HypergraphChebConv",
    "HypergraphDiffusion",
    "MLPConductance",
    "RelationalChebConv",
    "SigmoidConductance",
    "SimplicialDiffusion",
    "relational_features",
]
