"""The definition: conditional gradient with an exact line search, linear programs by SciPy."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .result import Descent

Array = NDArray[np.float64]


def descend(
    c: Tensor, d: Tensor, p: Tensor, q: Tensor, plan: Tensor, max_steps: int, tol: float
) -> Descent:
    r"""Descend from plans to plans that satisfy their marginals and that no vertex improves.

    The objective is quadratic, and its gradient has two constant terms and a linear one:

    .. math::
        2 \mathbf{C}^{\circ 2} \mathbf{p} \mathbf{1}^T + 2 \mathbf{1} (\mathbf{D}^{\circ 2}
        \mathbf{q})^T - 4 \mathbf{C} \mathbf{T} \mathbf{D}

    A step goes towards the vertex S that the gradient likes best, as far as the objective falls,
    all the way where it is concave along the step.

    Args:
        c: [B, n, n] symmetric costs.
        d: [B, m, m] symmetric costs.
        p: [B, n] masses of sum one; zero in what pads a pair.
        q: [B, m] likewise.
        plan: [B, n, m] where to begin: non-negative, of nearly the right marginals.
        max_steps: how many linear problems to solve for a pair.
        tol: of a step's gain, relative to the first two terms of the objective.

    Source:
        T. Vayer, L. Chapel, R. Flamary, R. Tavenard, N. Courty, "Fused Gromov-Wasserstein distance
        for structured objects", Algorithms 13(9), 2020, algorithms 1 and 2.
    """
    arrays = (each.detach().cpu().double().numpy() for each in (c, d, p, q, plan))
    pairs = []
    for pair in zip(*arrays, strict=True):
        pairs.append(_descend(pair[0], pair[1], pair[2], pair[3], pair[4], max_steps, tol))
    if not pairs:
        empty = torch.zeros(0, dtype=torch.float64)
        shape = plan.shape
        return Descent(
            empty.reshape(shape), empty, empty.reshape(0, shape[1]), empty.reshape(0, shape[2]),
            empty.bool(),
        )  # fmt: skip
    return Descent(*(torch.from_numpy(np.stack(each)) for each in zip(*pairs, strict=True)))


def _descend(
    c: Array, d: Array, p: Array, q: Array, plan: Array, max_steps: int, tol: float
) -> tuple[Array, Array, Array, Array, Array]:
    constant = 2 * ((c**2 @ p)[:, None] + (d**2 @ q)[None])
    scale = float(p @ c**2 @ p + q @ d**2 @ q)
    plan, converged = round_to_marginals(plan, p, q), False
    f, g = np.zeros_like(p), np.zeros_like(q)
    for _ in range(max_steps):
        gradient = constant - 4 * c @ plan @ d
        vertex, f, g = linear_transport(gradient, p, q)
        change = vertex - plan
        slope, curvature = float((gradient * change).sum()), -2 * (c @ change @ d * change).sum()
        share = 1.0 if curvature <= 0 else min(1.0, max(0.0, -slope / (2 * curvature)))
        # The gain and not the slope, which is zero on the saddle of all-alike points as well.
        if share * (slope + share * curvature) >= -tol * scale:
            converged = True
            break
        plan = plan + share * change
    row, column = plan.nonzero()
    mass, gaps = plan[row, column], c[np.ix_(row, row)] - d[np.ix_(column, column)]
    return plan, np.asarray(mass @ gaps**2 @ mass), f, g, np.asarray(converged)


def round_to_marginals(plan: Array, p: Array, q: Array) -> Array:
    """The plan of the right marginals that is near to one of nearly the right ones.

    Source: J. Altschuler, J. Weed, P. Rigollet, "Near-linear time approximation algorithms for
    optimal transport via Sinkhorn iteration", 2017, algorithm 2.
    """
    tiny = float(np.finfo(np.float64).tiny)
    plan = plan * np.minimum(1, p / np.maximum(plan.sum(1), tiny))[:, None]
    plan = plan * np.minimum(1, q / np.maximum(plan.sum(0), tiny))[None]
    rows, columns = np.maximum(p - plan.sum(1), 0), np.maximum(q - plan.sum(0), 0)
    return plan + np.outer(rows, columns) / max(float(columns.sum()), tiny)


def linear_transport(cost: Array, p: Array, q: Array) -> tuple[Array, Array, Array]:
    """The vertex [n, m] that minimises <cost, plan>, and the dual potentials [n] and [m]."""
    from scipy.optimize import linprog  # takes half a second to import
    from scipy.sparse import eye, kron, vstack

    n, m = cost.shape
    marginals = vstack([kron(eye(n), np.ones((1, m))), kron(np.ones((1, n)), eye(m))]).tocsr()
    scale = max(float(np.abs(cost).max(initial=0)), float(np.finfo(np.float64).tiny))
    answer = linprog(
        cost.reshape(-1) / scale,
        A_eq=marginals[:-1],  # the last row follows from the others, up to rounding
        b_eq=np.concatenate([p, q])[:-1],
        method="highs",
    )
    duals = np.append(answer.eqlin.marginals, 0.0) * scale
    return np.maximum(answer.x.reshape(n, m), 0), duals[:n], duals[n:]
