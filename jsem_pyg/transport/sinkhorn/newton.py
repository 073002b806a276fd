r"""Newton's method for the potentials of small plans, until their masses are exact.

With exact rows, :math:`T_{ij} = p_i \, \mathrm{softmax}_j(S_{ij} + g_j)`, the columns have their
masses at the minimum of the convex function

.. math::
    F(g) = \sum_i p_i \log \sum_j e^{S_{ij} + g_j} - \sum_j q_j g_j,

whose gradient is c - q, for the column masses c, and whose second derivatives are diag(c) -
T^T diag(p)^{-1} T. A few steps do what takes Sinkhorn's iteration 10^5 passes over a cold plan.

Source: Brauer, Clason, Lorenz and Wirth, "A Sinkhorn-Newton method for entropic optimal transport",
2017.
"""

import math

import torch
from torch import Tensor

from .loop import Kernel

_DECREASE = 1e-4  # of what the slope promises, for a step to be taken
_ROUNDING = 1e-14  # of F, and of second derivatives, some of which vanish where rows are sharp
_BACKTRACKS = 40
_FAR = 100.0  # times the tolerance: not rounding
_WARM = 4.0  # nats: a range of scores that needs no good start
_STEPS = 40
_FAST = 0.2  # of the error before: there is no need for second derivatives


def newton(kernel: Kernel, psi: Tensor, tol: float, is_careful: bool) -> Tensor:
    """Find column potentials [S, K] in bits that miss the masses of columns by at most `tol`.

    It begins at `psi`; if that leads nowhere, a careful search begins again, at a warm
    temperature, and cools.
    """
    score = math.log(2) * (kernel.u.double() @ kernel.v.double().mT)
    bias = math.log(2) * kernel.bias.double().unsqueeze(-2)
    p, q = kernel.log2_p.double().exp2(), kernel.log2_q.double().exp2()
    q = q * (p.sum(-1, keepdim=True) / q.sum())  # float32 knows their sum to 1e-7
    found, error = _descend(score + bias, p, q, math.log(2) * psi.double(), tol)
    if is_careful and not bool((error <= _FAR * tol).all()):
        halvings = math.ceil(math.log2(1 + float(score.max() - score.min()) / _WARM))
        found = torch.zeros_like(found)
        for power in range(halvings, -1, -1):
            found, _ = _descend(0.5**power * score + bias, p, q, 2 * found, tol)
    return (found / math.log(2)).to(psi)


def _descend(score: Tensor, p: Tensor, q: Tensor, g: Tensor, tol: float) -> tuple[Tensor, Tensor]:
    """Descend to potentials [S, K], and the mass [S] by which their columns miss q."""
    # The sum of all potentials decides nothing, nor does the potential of a column without mass.
    pin = q[..., :, None] * q[..., None, :] + torch.diag_embed((q <= 0).double() + _ROUNDING)
    reach = score.amax((-2, -1)) - score.where(score > -torch.inf, 0).amin((-2, -1)) + 1
    share, c, value = _look(score, p, q, g)
    before, moves = torch.inf, torch.ones_like(value, dtype=torch.bool)
    for _ in range(_STEPS):
        gap = q - c
        error = gap.abs().sum(-1)
        is_open = (error > tol) & moves
        if not bool(is_open.any()):
            break
        worst = float(error.max())
        if worst < _FAST * before:  # a step of Sinkhorn's iteration is cheaper, and F falls
            step = (q / c).log().nan_to_num(0, 0, 0)
        else:
            second = torch.diag_embed(c) - share.mT @ (p[..., None] * share)
            step = torch.linalg.solve(second + pin, gap).nan_to_num(0, 0, 0)
        before = worst
        slope = _DECREASE * (gap * step).sum(-1)
        length = is_open * (reach / step.abs().amax(-1)).clamp(max=1)
        for _ in range(_BACKTRACKS):
            share, c, new = _look(score, p, q, g + length[..., None] * step)
            is_lower = new <= value - length * slope + _ROUNDING * value.abs()
            if bool((is_lower | ~is_open).all()):
                break
            length = torch.where(is_lower, length, length / 4)
        moves = (new < value - _ROUNDING * value.abs()) | ((q - c).abs().sum(-1) < error)
        g, value = g + length[..., None] * step, new
    return g, (q - c).abs().sum(-1)


def _look(score: Tensor, p: Tensor, q: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute shares of the rows [S, N, K], masses of the columns [S, K], and F [S]."""
    total = score + g[..., None, :]
    log_sum = total.logsumexp(-1)
    share = (total - log_sum[..., None]).exp()
    c = (p[..., None, :] @ share)[..., 0, :]
    return share, c, (p * log_sum).sum(-1) - (q * g).sum(-1)
