"""Compiled for the CPU: the pairs are shared among threads, and a pair stays in the cache.

Problems are of a few dozen points, so what counts is that nothing is padded, allocated or started
between steps. Steps and names are those of :mod:`~.reference`.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..compiled import compiled
from .result import Descent

Array = NDArray[Any]

_MUCH_WORK = 1 << 21  # numbers in costs and plans from which on threads are worth their start
_SWEEPS = 2  # of a guess at the potentials; more are no better
_EXHAUSTED = 1e-14  # less mass than that is rounding


def descend(
    c: Tensor, d: Tensor, p: Tensor, q: Tensor, plan: Tensor, max_steps: int, tol: float
) -> Descent:
    """Descend from plans to plans of exact marginals; see :func:`.reference.descend`."""
    costs = [each.detach().contiguous().numpy() for each in (c, d)]
    masses = [each.detach().double().contiguous().numpy() for each in (p, q)]
    start = plan.detach().contiguous().numpy()
    num_pairs, n, m = start.shape
    out = np.zeros((num_pairs, n, m))
    cost, done = np.zeros(num_pairs), np.zeros(num_pairs, np.bool_)
    f, g = np.zeros((num_pairs, n)), np.zeros((num_pairs, m))

    threads = torch.get_num_threads() if num_pairs * (n * n + m * m) >= _MUCH_WORK else 1

    def work(thread: int) -> None:
        _descend_pairs(
            *costs, *masses, start, out, cost, f, g, done, max_steps, tol, thread, threads
        )

    if threads == 1:
        work(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
    return Descent(*(torch.from_numpy(each) for each in (out, cost, f, g, done)))


@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def _descend_pairs(
    c: Array,
    d: Array,
    p: Array,
    q: Array,
    start: Array,
    out: Array,
    cost: Array,
    f: Array,
    g: Array,
    done: Array,
    max_steps: int,
    tol: float,
    thread: int,
    threads: int,
) -> None:
    """The pairs of one thread: every so-many-th, without the points that have no mass."""
    for pair in range(thread, start.shape[0], threads):
        rows, columns = np.nonzero(p[pair] > 0)[0], np.nonzero(q[pair] > 0)[0]
        n, m = rows.size, columns.size
        own_c, own_d, plan = np.empty((n, n)), np.empty((m, m)), np.empty((n, m))
        for i in range(n):
            for k in range(n):
                own_c[i, k] = c[pair, rows[i], rows[k]]
            for j in range(m):
                plan[i, j] = start[pair, rows[i], columns[j]]
        for j in range(m):
            for k in range(m):
                own_d[j, k] = d[pair, columns[j], columns[k]]
        own_p, own_q = p[pair][rows], q[pair][columns]
        u, v = np.zeros(n), np.zeros(m)
        done[pair] = _descend(own_c, own_d, own_p, own_q, plan, u, v, max_steps, tol)
        cost[pair] = _cost(own_c, own_d, plan)
        for i in range(n):
            for j in range(m):
                out[pair, rows[i], columns[j]] = plan[i, j]
        _potentials(c[pair], own_p, rows, columns, d[pair], own_q, plan, u, v, f[pair], g[pair])


@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def _descend(
    c: Array,
    d: Array,
    p: Array,
    q: Array,
    plan: Array,
    u: Array,
    v: Array,
    max_steps: int,
    tol: float,
) -> bool:
    """Steps in place of `plan`; u and v end as the potentials of the linear cost -C T D."""
    n, m = plan.shape
    scale = _mean_square(c, p) + _mean_square(d, q)
    _round_to_marginals(plan, p, q)
    vertex, image, towards = np.zeros((m, n)), np.zeros((n, m)), np.zeros((n, m))
    half = np.zeros((n, m))
    _sandwich(c, plan, d, half, image)  # C T D, which is linear in T and updated with it
    _guess_potentials(image, plan, p, q, u, v)
    for _ in range(max_steps):
        _linear_transport(image, p, q, vertex, u, v)  # maximises <C T D, S>; S is transposed
        _sandwich(c, vertex.T, d, half, towards)
        slope, curvature = 0.0, 0.0
        for i in range(n):
            for j in range(m):
                change, turn = vertex[j, i] - plan[i, j], towards[i, j] - image[i, j]
                slope -= 4 * image[i, j] * change
                curvature -= 2 * turn * change
        share = 1.0 if curvature <= 0 else min(1.0, max(0.0, -slope / (2 * curvature)))
        # The gain and not the slope, which is zero on the saddle of all-alike points as well.
        if share * (slope + share * curvature) >= -tol * scale:
            return True
        for i in range(n):
            for j in range(m):
                plan[i, j] += share * (vertex[j, i] - plan[i, j])
                image[i, j] += share * (towards[i, j] - image[i, j])
        if share == 1.0:
            plan[:] = vertex.T
    return False


@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def _guess_potentials(gain: Array, plan: Array, p: Array, q: Array, u: Array, v: Array) -> None:
    """Potentials for which the reduced costs are small where the plan has mass."""
    n, m = gain.shape
    for _ in range(_SWEEPS):
        u[:] = 0
        for i in range(n):
            for j in range(m):
                u[i] -= plan[i, j] * (gain[i, j] + v[j])
            u[i] /= p[i]
        v[:] = 0
        for i in range(n):
            for j in range(m):
                v[j] -= plan[i, j] * (gain[i, j] + u[i])
        for j in range(m):
            v[j] /= q[j]


@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def _mean_square(c: Array, p: Array) -> float:
    total = 0.0
    for i in range(p.size):
        for k in range(p.size):
            total += c[i, k] * c[i, k] * p[i] * p[k]
    return total


@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def _cost(c: Array, d: Array, plan: Array) -> float:
    """Sum |C_ik - D_jl|^2 T_ij T_kl over what has mass: of equal costs it is zero, not rounding."""
    rows, columns = np.nonzero(plan)
    total = 0.0
    for a in range(rows.size):
        part = 0.0
        for b in range(rows.size):
            gap = c[rows[a], rows[b]] - d[columns[a], columns[b]]
            part += gap * gap * plan[rows[b], columns[b]]
        total += part * plan[rows[a], columns[a]]
    return total


@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def _potentials(
    c: Array,
    p: Array,
    rows: Array,
    columns: Array,
    d: Array,
    q: Array,
    plan: Array,
    u: Array,
    v: Array,
    f: Array,
    g: Array,
) -> None:
    """Those of the gradient 2 C^2 p + 2 D^2 q - 4 C T D, for points without mass as well."""
    n, m = plan.shape
    for i in range(n):
        f[rows[i]] = 4 * u[i]
    for j in range(m):
        g[columns[j]] = 4 * v[j]
    _fill_in(c, d, rows, columns, plan, v, f)
    _fill_in(d, c, columns, rows, plan.T, u, g)
    for i in range(f.size):
        for k in range(n):
            f[i] += 2 * c[i, rows[k]] ** 2 * p[k]
    for j in range(g.size):
        for k in range(m):
            g[j] += 2 * d[j, columns[k]] ** 2 * q[k]


@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def _fill_in(
    c: Array, d: Array, rows: Array, columns: Array, plan: Array, v: Array, f: Array
) -> None:
    """What mass at a point without any would cost: the least of cost less potential."""
    n, m = plan.shape
    has_mass = np.zeros(f.size, np.bool_)
    has_mass[rows] = True
    for i in range(f.size):
        if has_mass[i]:
            continue
        moved = np.zeros(m)  # row i of C T
        for k in range(n):
            for j in range(m):
                moved[j] += c[i, rows[k]] * plan[k, j]
        least = np.inf
        for j in range(m):
            image = 0.0
            for k in range(m):
                image += moved[k] * d[columns[k], columns[j]]
            least = min(least, -image - v[j])
        f[i] = 4 * least


@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def _sandwich(c: Array, plan: Array, d: Array, half: Array, out: Array) -> None:
    """C T D, passing over what is zero in T: a vertex has n + m - 1 entries."""
    n, m = out.shape
    half[:] = 0
    for k in range(n):
        for j in range(m):
            mass = plan[k, j]
            if mass != 0:
                row = d[j]
                for column in range(m):
                    half[k, column] += mass * row[column]
    out[:] = 0
    for i in range(n):
        into = out[i]
        for k in range(n):
            weight, row = c[i, k], half[k]
            for j in range(m):
                into[j] += weight * row[j]


@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def _round_to_marginals(plan: Array, p: Array, q: Array) -> None:
    n, m = plan.shape
    columns = np.zeros(m)
    for i in range(n):
        total = 0.0
        for j in range(m):
            total += plan[i, j]
        share = p[i] / total if total > p[i] else 1.0
        for j in range(m):
            plan[i, j] *= share
            columns[j] += plan[i, j]
    missing = q.copy()
    for j in range(m):
        columns[j] = q[j] / columns[j] if columns[j] > q[j] else 1.0
    total = 0.0
    short = p.copy()
    for i in range(n):
        for j in range(m):
            plan[i, j] *= columns[j]
            short[i] -= plan[i, j]
            missing[j] -= plan[i, j]
    for j in range(m):
        missing[j] = max(0.0, missing[j])
        total += missing[j]
    if total <= _EXHAUSTED:
        return
    for i in range(n):
        for j in range(m):
            plan[i, j] += max(0.0, short[i]) * missing[j] / total


@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def _linear_transport(gain: Array, p: Array, q: Array, flow: Array, u: Array, v: Array) -> None:
    """Fill flow [m, n], of most gain; u and v are the potentials of the cost -gain.

    Rows send their mass along shortest paths of reduced costs, from where u and v were left.
    Source: R. Jonker, A. Volgenant, "A shortest augmenting path algorithm for dense and sparse
    linear assignment problems", 1987; with masses, N. Tomizawa, "On some techniques useful for
    solution of transportation network problems", 1971.
    """
    n, m = gain.shape
    flow[:] = 0
    demand = q.copy()
    length, via = np.empty(m), np.empty(m, np.int64)
    scanned, reached = np.empty(m, np.bool_), np.empty(n, np.bool_)
    into, depth = np.empty(n, np.int64), np.empty(n)
    for i in range(n):  # any v will do, if u makes the reduced costs non-negative
        least = np.inf
        for j in range(m):
            least = min(least, -gain[i, j] - v[j])
        u[i] = least
    for root in range(n):
        supply = p[root]
        while supply > _EXHAUSTED:
            scanned[:], reached[:] = False, False
            for j in range(m):
                length[j], via[j] = -gain[root, j] - u[root] - v[j], root
            reached[root], depth[root] = True, 0.0
            end = -1
            while True:
                nearest, best = -1, np.inf
                for j in range(m):
                    if not scanned[j] and length[j] < best:
                        nearest, best = j, length[j]
                if nearest < 0:
                    break
                if demand[nearest] > _EXHAUSTED:
                    end = nearest
                    break
                scanned[nearest] = True
                for i in range(n):
                    if flow[nearest, i] > 0 and not reached[i]:
                        reached[i], into[i], depth[i] = True, nearest, best
                        base = best - u[i]
                        for j in range(m):
                            other = base - gain[i, j] - v[j]
                            if not scanned[j] and other < length[j]:
                                length[j], via[j] = other, i
            if end < 0:
                break  # all demand is met: what is left is rounding
            far = length[end]
            for i in range(n):
                if reached[i]:
                    u[i] += far - depth[i]
            for j in range(m):
                if scanned[j]:
                    v[j] -= far - length[j]
            supply, demand[end] = _augment(flow, via, into, root, end, supply, demand[end])


@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def _augment(
    flow: Array, via: Array, into: Array, root: int, end: int, supply: float, demand: float
) -> tuple[float, float]:
    """Send what fits along the path that ends in column `end`; what supply and demand are left."""
    amount = min(supply, demand)
    column = end
    while via[column] != root:
        row = via[column]
        column = into[row]
        amount = min(amount, flow[column, row])
    column = end
    while True:
        row = via[column]
        flow[column, row] += amount
        if row == root:
            break
        column = into[row]
        flow[column, row] -= amount
        if flow[column, row] <= _EXHAUSTED:
            flow[column, row] = 0.0
    return supply - amount, demand - amount
