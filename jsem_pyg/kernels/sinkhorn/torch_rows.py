"""Tiles of rows in torch, on any device and for several plans at once: the definition."""

import torch
from torch import Tensor

from ..torch_func import full_precision
from .result import SinkhornPass, bounded, bounded_potential, close_rows

_TILE = 1 << 22  # numbers of a tile: memory is bounded whatever the size of the plan


@torch.no_grad()
def sinkhorn_pass(u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, y: Tensor) -> SinkhornPass:
    r"""Take half a Sinkhorn step on scores of low rank, and apply the plan to `y`.

    .. math::
        S_{ij} = u_i \cdot v_j + g_j, \quad f_i = \log_2 p_i - \log_2 \sum_j 2^{S_{ij}}, \quad
        T_{ij} = 2^{S_{ij} + f_i}

    So the rows of T sum to p. Minus infinity stands for no mass; rows that no column can take have
    f = -inf. Coordinates are held within 2^40.

    Args:
        u: [..., N, R] float32 or float64.
        v: [..., K, R].
        g: [..., K] column potentials in bits.
        log2_p: [..., N] masses of the rows in bits.
        y: [..., K, C] a signal of the columns.

    Leading dimensions broadcast; other backends than this one have none.

    Source: Cuturi, "Sinkhorn distances: lightspeed computation of optimal transport", 2013, in
    the logarithms of Feydy et al., 2019.
    """
    step = max(1, _TILE // max(1, v.size(-2)))
    with full_precision(u.device):
        tiles = [
            _tile(rows, v, g, mass, y)
            for rows, mass in zip(u.split(step, -2), log2_p.split(step, -1), strict=True)
        ]
    f, column_mass, average, peak = zip(*tiles, strict=True)
    return SinkhornPass(
        torch.cat(f, -1),
        torch.stack(column_mass).sum(0),
        torch.cat(average, -2),
        torch.cat(peak, -1),
    )


def _tile(u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, y: Tensor) -> SinkhornPass:
    """Compute the pass over a few rows."""
    scores = bounded(u) @ bounded(v).mT + bounded_potential(g).unsqueeze(-2)
    if scores.size(-1) == 0:
        top = z = scores.new_zeros(scores.shape[:-1])
    else:
        top = scores.amax(-1)
        top = torch.where(top > -torch.inf, top, 0)
        scores.sub_(top.unsqueeze(-1)).exp2_()
        z = scores.sum(-1)
    rows = close_rows(top, z, log2_p)
    plan = (scores * rows.scale.unsqueeze(-1)).double()  # for the sums
    return SinkhornPass(rows.f, plan.sum(-2), (plan @ y.double()).to(u), rows.peak)
