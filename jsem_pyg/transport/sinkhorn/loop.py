"""Sinkhorn's iteration on factored scores, of one plan or of several at once.

A pass over the plan makes its rows exact and measures its columns; between passes the column
potentials are mixed. Everything is in bits.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...kernels.sinkhorn import SinkhornPass
from ...kernels.sinkhorn.torch_rows import sinkhorn_pass as dense_pass
from .anderson import Mixer

_LOST = 2.0**-40  # a column with less than this share of its mass has lost it
_FEW_ENTRIES = 1 << 17  # of several plans, whose dense matrices take less time than their calls
_WORSE = 2.0  # a marginal error that grew by this factor: mixing has failed

Pass = Callable[..., Any]  # a `sinkhorn_pass` of `jsem_pyg.kernels.sinkhorn`, of several plans


class Kernel(NamedTuple):
    """T_ij = 2^(u_i . v_j + f_i + bias_j + psi_j), and the marginals that it should have.

    Leading dimensions [S] count several plans; all but `u` may be shared.
    """

    u: Tensor  # [S, N, R]
    v: Tensor  # [S, K, R] or [K, R]
    bias: Tensor  # [S, K] or [K]
    log2_p: Tensor  # [S, N] or [N]
    log2_q: Tensor  # [K]


class Scaling(NamedTuple):
    """The plan of the last pass, and the potentials for the next one."""

    psi: Tensor  # [S, K] column potentials of the plan
    following: Tensor  # [S, K] those after another step
    done: SinkhornPass  # row potentials, column masses, averages of the signal
    error: Tensor  # [S] float64, the mass by which columns miss their constraint


def sinkhorn(
    kernel: Kernel,
    psi: Tensor,
    signal: Tensor,
    one_pass: Pass,
    *,
    tol: float,
    passes: int,
    limit: Any = torch.inf,
    is_careful: bool = False,
) -> Scaling:
    """Scale a kernel to its marginals, by a few passes with Anderson mixing.

    It begins at potentials `psi` [S, K]; the last pass is over the plan that is returned, and
    averages `signal` [K, C]. Mixing could throw potentials far away: `limit` [S, 1] bounds them.
    With `is_careful`, a single plan goes back to its best potentials if the error grows, and
    returns these in the end.
    """
    q = kernel.log2_q.exp2()
    nothing, floor = signal[..., :0], torch.finfo(q.dtype).tiny
    mixer, best, lowest = Mixer(q), psi, torch.inf
    is_last = False
    for index in range(passes):
        is_last = is_last or index == passes - 1
        done = _pass(kernel, psi, signal if is_last else nothing, one_pass)
        ratio = (q / done.column_mass.clamp(min=floor)).log2()
        residual = torch.where(q > 0, ratio, 0).to(psi)
        error = (q * (1 - (-residual.abs()).exp2())).sum(-1).double()
        worst = float(error.max())
        is_lost = bool(((done.column_mass < _LOST * q) & (q > 0)).any())
        is_worse = is_careful and not worst < _WORSE * lowest
        if is_careful and worst < lowest:
            best, lowest = psi, worst
        if is_last:
            break
        if is_worse:
            psi = best
            done = _pass(kernel, psi, nothing, one_pass)
        if is_lost or is_worse:
            # The mass of a column without any does not determine its potential; its scores do.
            psi = _centred(kernel, column_step(kernel, done.f, one_pass))
            mixer.forget()
        else:
            psi = mixer.next(psi, residual)
        psi = psi.clamp(-limit, limit)
        is_last = worst < tol
    if is_careful and worst > lowest:
        psi = best
        done, error = _pass(kernel, psi, signal, one_pass), error.new_full(error.shape, lowest)
        return Scaling(psi, psi, done, error)
    if is_lost:
        following = _centred(kernel, column_step(kernel, done.f, one_pass))
    else:
        following = mixer.next(psi, residual)
    return Scaling(psi, following.clamp(-limit, limit), done, error)


def _centred(kernel: Kernel, psi: Tensor) -> Tensor:
    """Subtract what potentials have in common; rows make up for it."""
    q = kernel.log2_q.exp2()
    return psi - ((q * psi).sum(-1) / q.sum()).unsqueeze(-1)


def _pass(kernel: Kernel, psi: Tensor, signal: Tensor, one_pass: Pass) -> SinkhornPass:
    done: SinkhornPass = one_pass(kernel.u, kernel.v, kernel.bias + psi, kernel.log2_p, signal)
    return done


def column_step(kernel: Kernel, f: Tensor, one_pass: Pass) -> Tensor:
    """Find potentials [S, K] of exact columns, for given rows f [S, N]."""
    shape = kernel.u.shape[:-2]
    v = kernel.v.expand(*shape, *kernel.v.shape[-2:])
    log2_q = kernel.log2_q.expand(*shape, -1)
    columns = one_pass(v, kernel.u, f, log2_q, kernel.u[..., :0])
    has_mass = kernel.log2_q > -torch.inf
    return torch.where(has_mass, columns.f - torch.where(has_mass, kernel.bias, 0), 0).to(f)


def in_turn(one_pass: Callable[..., SinkhornPass]) -> Pass:
    """Make a pass over several plans [S], one after the other, from a pass over one.

    Several small plans are dense matrices instead, all of them in one pass.
    """

    def several(u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, y: Tensor) -> SinkhornPass:
        if u.dim() == 2:
            return one_pass(u, v, g, log2_p, y)
        count = u.size(0)
        if count > 1 and count * u.size(1) * v.size(-2) <= _FEW_ENTRIES:
            return dense_pass(u, v, g, log2_p, y)
        shared = ((v, 2), (g, 1), (log2_p, 1), (y, 2))
        parts = [each.expand(count, *each.shape[-dim:]) for each, dim in shared]
        done = [one_pass(*each) for each in zip(u, *parts, strict=True)]
        return SinkhornPass(*(torch.stack(part) for part in zip(*done, strict=True)))

    return several
