"""The definition: linear programs by SciPy's HiGHS, one problem after the other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def linear_transport(gain: Array, p: Array, q: Array, u: Array, v: Array) -> Array:
    """Plans that maximise <gain, plan>, for B problems.

    Args:
        gain: [B, n, m] float64.
        p: [B, n] masses >= 0.
        q: [B, m] masses >= 0, of the same sum in each problem.
        u: [B, n] is filled with the dual potentials of the cost -gain, u_i + v_j <= -gain_ij, of
            the points with mass.
        v: [B, m] likewise; a backend may begin at what it holds.

    Returns:
        Vertices [B, n, m] of the polytope of plans.
    """
    plan = np.zeros_like(gain)
    for index in range(len(gain)):
        rows, columns = np.flatnonzero(p[index]), np.flatnonzero(q[index])
        block = np.ix_(rows, columns)
        plan[index][block], u[index][rows], v[index][columns] = _solve(
            -gain[index][block], p[index][rows], q[index][columns]
        )
    return plan


def _solve(cost: Array, p: Array, q: Array) -> tuple[Array, Array, Array]:
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
