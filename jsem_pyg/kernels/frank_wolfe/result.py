"""What a descent ends with."""

from typing import NamedTuple

from torch import Tensor


class Descent(NamedTuple):
    """Plans of B pairs that no vertex improves, to first order. All on the CPU, in float64."""

    plan: Tensor  # [B, n, m] of exact marginals, to rounding
    cost: Tensor  # [B] sum |C_ik - D_jl|^2 T_ij T_kl
    f: Tensor  # [B, n] d cost / d p, up to a constant; the dual potentials of the last step
    g: Tensor  # [B, m] d cost / d q, likewise: f_i + g_j = d cost / d T_ij wherever T_ij > 0
    converged: Tensor  # [B] bool, whether no vertex was better before the steps ended
