"""Compiled for the CPU: shortest augmenting paths, from the potentials of the call before."""

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..compiled import compiled
from ..threads import map_ranges

Array = NDArray[Any]

_MUCH_WORK = 1 << 20  # entries of plans from which on threads are worth their start
_EXHAUSTED = 1e-14  # less mass than that is rounding


def linear_transport(gain: Array, p: Array, q: Array, u: Array, v: Array) -> Array:
    """See :func:`.reference.linear_transport`."""
    plan = np.zeros_like(gain)
    threads = torch.get_num_threads() if gain.size >= _MUCH_WORK else 1
    bounds = np.linspace(0, len(gain), 8 * threads + 1).astype(np.int64).tolist()
    map_ranges(partial(_solve_some, gain, p, q, u, v, plan), bounds, threads)
    return plan


@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def _solve_some(
    gain: Array, p: Array, q: Array, u: Array, v: Array, plan: Array, first: int, last: int
) -> None:
    """Some of the problems, without the points that have no mass."""
    for index in range(first, last):
        rows, columns = np.nonzero(p[index] > 0)[0], np.nonzero(q[index] > 0)[0]
        n, m = rows.size, columns.size
        own, flow = np.empty((n, m)), np.zeros((m, n))
        for i in range(n):
            for j in range(m):
                own[i, j] = gain[index, rows[i], columns[j]]
        own_u, own_v = u[index][rows], v[index][columns]
        _linear_transport(own, p[index][rows], q[index][columns], flow, own_u, own_v)
        for i in range(n):
            u[index, rows[i]] = own_u[i]
            for j in range(m):
                plan[index, rows[i], columns[j]] = flow[j, i]
        for j in range(m):
            v[index, columns[j]] = own_v[j]


@compiled(nogil=True, error_model="numpy", fastmath={"contract"})
def _linear_transport(gain: Array, p: Array, q: Array, flow: Array, u: Array, v: Array) -> None:
    """Fill flow [m, n], of most gain; u and v are the potentials of the cost -gain.

    Rows send their mass along shortest paths of reduced costs, from where u and v were left.
    Source: R. Jonker, A. Volgenant, "A shortest augmenting path algorithm for dense and sparse
    linear assignment problems", 1987; with masses, N. Tomizawa, "On some techniques useful for
    solution of transportation network problems", 1971.
    """
    n, m = gain.shape
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
    """Send what fits along the path that ends in column `end`; return supply and demand left."""
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
