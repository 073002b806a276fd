"""Stage 5: layers. They own parameters and calls; the mathematics is in stages 3 and 4."""

from .anisotropic_cheb_conv import AnisotropicChebConv
from .anisotropic_diffusion import AnisotropicDiffusion
from .conductance import MLPConductance, SigmoidConductance
from .diffusion_time import DiffusionTime

__all__ = [
    "AnisotropicChebConv",
    "AnisotropicDiffusion",
    "DiffusionTime",
    "MLPConductance",
    "SigmoidConductance",
]
