"""The definition, with dense matrices: what every other backend is compared with."""

import torch
from torch import Tensor

from ..._precision import full_precision
from .result import SinkhornPass, bounded, bounded_potential, close_rows


@torch.no_grad()
def sinkhorn_pass(
    u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, y: Tensor, damping: float | Tensor = 1.0
) -> SinkhornPass:
    r"""Take half a Sinkhorn step on scores of low rank, and apply the plan to `y`.

    .. math::
        S_{ij} = u_i \cdot v_j + g_j, \quad l_i = \log_2 \sum_j 2^{S_{ij}}, \\
        f_i = \log_2 p_i - \text{damping} \cdot l_i, \quad
        T_{ij} = 2^{S_{ij} + f_i}

    At a damping of 1 the rows of T sum to p; at rho / (rho + epsilon) they are what a
    Kullback-Leibler penalty rho leads to; at 0, T is 2^(u v + f + g) with f = log2_p. Minus
    infinity stands for no mass; rows that no column can take have f = -inf. A row's mass is held
    below 2^64, and coordinates within 2^40.

    Args:
        u: [..., N, R] float32 or float64.
        v: [..., K, R].
        g: [..., K] column potentials in bits.
        log2_p: [..., N] masses of the rows in bits.
        y: [..., K, C] a signal of the columns.
        damping: how much of the constraint on the rows is met, from 0 to 1; or [..., 1].

    Leading dimensions broadcast; other backends than this one have none.

    Source: Cuturi, "Sinkhorn distances: lightspeed computation of optimal transport", 2013, in
    the logarithms of Feydy et al., 2019; damped as in Chizat et al., "Scaling algorithms for
    unbalanced transport problems", 2018.

    Example:
        >>> u, v = torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0], [1.0]])
        >>> one = sinkhorn_pass(u, v, torch.zeros(2), torch.tensor([-1.0, -1.0]), v)
        >>> one.average.T, one.column_mass  # both rows have half of the mass
        (tensor([[0.3333, 0.4000]]), tensor([0.2667, 0.7333], dtype=torch.float64))
    """
    with full_precision(u.device):
        scores = bounded(u) @ bounded(v).mT + bounded_potential(g).unsqueeze(-2)
        if scores.size(-1) == 0:
            top = z = scores.new_zeros(scores.shape[:-1])
        else:
            top = scores.amax(-1)
            top = torch.where(top > -torch.inf, top, 0)
            scores.sub_(top.unsqueeze(-1)).exp2_()
            z = scores.sum(-1)
        rows = close_rows(top, z, log2_p, damping)
        plan = (scores * rows.scale.unsqueeze(-1)).double()  # for the sums
        return SinkhornPass(rows.f, plan.sum(-2), (plan @ y.double()).to(u), rows.peak)
