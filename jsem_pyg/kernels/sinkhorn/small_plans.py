"""Descents of small plans on the CPU, from the first temperature to the last, compiled.

Their tables fit into the cache. Scalings of rows and columns are products of the table's
exponentials with vectors, computed once for each update of the moments; potentials take up the
scalings then.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import compiled

Array = NDArray[Any]

_LEAST = 1e-30  # mass of a column, relative to its own: less is lost
_FAR = 1e30  # scalings beyond this go into the potentials


@compiled(nogil=True)
def cool_small(
    z: Array, v: Array, linear: Array, weight: Array, fixed: Array, p: Array, q: Array,
    moments: Array, potential: Array, error: Array, epsilon: Array, coldest: float, sharp: float,
    cooling: float, updates: int, passes: int, tol: float, still: float,
) -> None:  # fmt: skip
    """Cool plans of moments [S, R, R'], potentials [S, K] in nats and temperatures [S].

    The scores of moments M are Z A V^T, with A = linear + weight (M + fixed) for the coordinates,
    the leading [r, s]. At every temperature the moments are renewed until they change by less than
    a share `still`, some `updates` times at most. A plan is scaled until `error` [S], the mass by
    which its columns miss q [K], is at most `tol`, by some `passes` at most. Cooling ends at
    `coldest`, or if the mean largest share of the rows is `sharp`. All is float64; p and q are
    positive; moments, potential, error and epsilon are overwritten.
    """
    rank, other = fixed.shape
    columns = np.ascontiguousarray(v.T)
    for s in range(len(moments)):
        g, now = potential[s], epsilon[s]
        while True:
            for _ in range(updates):
                factor = linear.copy()
                factor[:rank, :other] += weight * (moments[s, :rank, :other] + fixed)
                table = (z @ (factor / now)) @ columns
                plan, error[s] = _scaled(table, g, p, q, passes, tol)
                new = (z.T @ plan) @ v
                change = np.abs(new - moments[s]).sum()
                moments[s] = new
                if change < still * np.abs(new).sum():
                    break
            peak = 0.0
            for row in plan:
                peak += row.max()
            if now <= coldest or peak >= sharp:
                break
            cooler = max(now / cooling, coldest)
            g *= now / cooler
            now = cooler
        epsilon[s] = now


@compiled(nogil=True, fastmath=True)
def _scaled(
    table: Array, g: Array, p: Array, q: Array, passes: int, tol: float
) -> tuple[Array, float]:
    """Find the plan exp(f + table + g) q of exact rows, and what it misses; g is overwritten."""
    plan, left = np.empty_like(table), np.empty(len(p))
    right, received = np.empty(len(q)), np.empty(len(q))
    error, far = 0.0, True
    for number in range(passes):
        if far:
            if number:
                g += np.log(right)
            right[:] = 1.0
            for i in range(len(p)):
                top = table[i, 0] + g[0]
                for j in range(len(q)):
                    top = max(top, table[i, j] + g[j])
                for j in range(len(q)):
                    plan[i, j] = q[j] * np.exp(table[i, j] + g[j] - top)
        received[:] = 0.0
        for i in range(len(p)):
            sent = 0.0
            for j in range(len(q)):
                sent += plan[i, j] * right[j]
            left[i] = p[i] / sent
            for j in range(len(q)):
                received[j] += left[i] * plan[i, j]
        error = 0.0
        for j in range(len(q)):
            received[j] *= right[j]
            error += abs(received[j] - q[j])
        if error <= tol or number == passes - 1:
            break
        far = False
        for j in range(len(q)):
            right[j] *= q[j] / max(received[j], _LEAST * q[j])
            far |= not 1 / _FAR < right[j] < _FAR
    g += np.log(right)
    return left.reshape(-1, 1) * plan * right, error
