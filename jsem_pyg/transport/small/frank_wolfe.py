r"""The Frank-Wolfe algorithm (conditional gradient) on many small Gromov-Wasserstein problems.

Proximal plans are close to a good plan, but their marginals are never exact. Those of a Frank-Wolfe
step are: it solves a linear transport problem exactly, and the solution is a vertex of the polytope
of plans. From a good plan, two or three steps are enough. The gradient of the objective has two
constant terms and a linear one,

.. math::
    2 \mathbf{C}^{\circ 2} \mathbf{p} \mathbf{1}^T + 2 \mathbf{1} (\mathbf{D}^{\circ 2}
    \mathbf{q})^T - 4 \mathbf{C} \mathbf{T} \mathbf{D}.

Source: T. Vayer, L. Chapel, R. Flamary, R. Tavenard, N. Courty, "Fused Gromov-Wasserstein distance
for structured objects", Algorithms 13(9), 2020, algorithms 1 and 2.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..sinkhorn.dense import round_to_marginals
from .proximal import Pairs

_SMALL = 1e-4  # of p^T C^2 p + q^T D^2 q: a cost that is a difference of large numbers
_LITTLE = 1e-12  # a share of the mass, which linear transport may leave where it is: rounding
_SWEEPS = 2  # of the first guess at the potentials; more are no better


class Descent(NamedTuple):
    """Plans of B pairs that no vertex improves, to first order. All on the CPU, in float64."""

    plan: Tensor  # [B, n, m] of exact marginals, to rounding
    cost: Tensor  # [B] sum |C_ik - D_jl|^2 T_ij T_kl
    f: Tensor  # [B, n] d cost / d p, up to a constant: dual potentials, also where there is no mass
    g: Tensor  # [B, m] d cost / d q, likewise: f_i + g_j = d cost / d T_ij wherever T_ij > 0
    converged: Tensor  # [B] bool, whether no vertex was better before the steps ended


def descend(
    pairs: Pairs, plan: Tensor, max_steps: int, tol: float, linear_transport: Callable[..., Any]
) -> Descent:
    """Descend to plans that satisfy their marginals and that no vertex improves.

    A step goes towards the vertex that the gradient likes best, as far as the objective falls, all
    the way where it is concave along the step. It is the last where it gains less than `tol` of
    p^T C^2 p + q^T D^2 q. Pairs are in float64 on the CPU; plans [B, n, m] begin with nearly the
    right marginals.
    """
    c, d, p, q = pairs
    own, other = c.square() @ p[..., None], d.square() @ q[..., None]
    scale = (p[:, None] @ own + q[:, None] @ other)[:, 0, 0]
    plan = round_to_marginals(plan.double(), p, q)
    image = c @ plan @ d  # linear in the plan, and updated with it
    u, v = _guess_potentials(image, plan, p, q)
    converged = torch.zeros(len(plan), dtype=torch.bool)
    at, state, active = pairs, (plan, image, u.clone(), v.clone()), torch.arange(len(plan))
    for _ in range(max_steps if len(plan) else 0):
        here, gain, up, down = state
        vertex = torch.from_numpy(
            linear_transport(*(x.contiguous().numpy() for x in (gain, at.p, at.q, up, down)))
        )
        moved, change = at.c @ vertex @ at.d, vertex - here
        slope = -4 * _dot(gain, change)
        curvature = -slope / 2 - 2 * _dot(moved, change)
        share = torch.where(curvature <= 0, 1.0, (-slope / (2 * curvature)).clamp(0, 1))
        # The gain and not the slope, which is zero on the saddle of all-alike points as well.
        is_done = share * (slope + share * curvature) >= -tol * scale[active]
        share = torch.where(is_done, 0.0, share)[:, None, None]
        state = (torch.lerp(here, vertex, share), torch.lerp(gain, moved, share), up, down)
        if bool(is_done.any()):
            converged[active[is_done]] = True
            for whole, part in zip((plan, image, u, v), state, strict=True):
                whole[active] = part
            here, gain, up, down = (part[~is_done] for part in state)
            state = (here, gain, up, down)
            at, active = at.take(~is_done), active[~is_done]
            if not active.numel():
                break
    else:  # some have not converged
        plan, image, u, v = (
            whole.index_copy(0, active, part)
            for whole, part in zip((plan, image, u, v), state, strict=True)
        )
    cost = scale - 2 * _dot(image, plan)
    for index in (cost < _SMALL * scale).nonzero()[:, 0].tolist():
        cost[index] = _cost(c[index], d[index], plan[index])
    u, v = _tight(u, v, image, p, q), _tight(v, u, image.mT, q, p)
    return Descent(plan, cost, 4 * u + 2 * own[..., 0], 4 * v + 2 * other[..., 0], converged)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    """<x, y> of each pair: [B]."""
    return (x.flatten(1)[:, None] @ y.flatten(1)[..., None])[:, 0, 0]


def _guess_potentials(gain: Tensor, plan: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Potentials for which the reduced costs are small where the plan has mass."""
    u, v = torch.zeros_like(p), torch.zeros_like(q)
    for _ in range(_SWEEPS):
        u = -(plan * (gain + v[:, None])).sum(2) / torch.where(p > 0, p, 1)
        v = -(plan * (gain + u[..., None])).sum(1) / torch.where(q > 0, q, 1)
    return u, v


def _tight(u: Tensor, v: Tensor, gain: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """Potentials [B, n]; of points with hardly any mass, the least of cost less potential."""
    slack = torch.where(q[:, None] > _LITTLE, -gain - v[:, None], torch.inf)
    return torch.where(p > _LITTLE, u, slack.amin(2))


def _cost(c: Tensor, d: Tensor, plan: Tensor) -> float:
    """Sum |C_ik - D_jl|^2 T_ij T_kl over what has mass: of copies it is zero, not rounding."""
    table = plan.numpy()
    row, column = table.nonzero()
    mass, gaps = table[row, column], c.numpy()[np.ix_(row, row)] - d.numpy()[np.ix_(column, column)]
    return float(mass @ gaps**2 @ mass)
