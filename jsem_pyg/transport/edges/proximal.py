r"""Proximal points of Gromov-Wasserstein on sparse costs: for graphs of different sizes or masses.

The discrepancy of a plan T with the marginals p and q is

.. math::
    \sum |A_{ik} - B_{jl}|^2 T_{ij} T_{kl} =
        p^\top A^{\circ 2} p + q^\top B^{\circ 2} q - 2 \langle A T B, T \rangle

so its gradient is two sparse products on a dense plan. A step maximises the linearised last term
less a Kullback-Leibler divergence from the step before: T <- Sinkhorn(T * exp(2 A T B / epsilon)).

Source: Xu, Luo, Zha and Carin, "Gromov-Wasserstein learning for graph matching and node embedding",
ICML 2019.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...kernels.frank_wolfe.reference import round_to_marginals
from ..plan.plan import Step

Array = NDArray[Any]

_EPSILONS = (0.3, 0.1)  # temperatures, to the largest entry of a first gradient
_TRIAL = 40  # steps, before the best two go on
_FLOOR = np.float32(1e-30)  # of a kernel's entries, so that no row or column loses all of its mass
_INNER, _LEAST_INNER = 200, 5  # iterations of Sinkhorn's, from the potentials of the step before
_ERROR = 1e-4  # of the column sums, in all, at which they end


class Problem(NamedTuple):
    """Two weighted graphs with masses."""

    source: csr_array  # [N, N] A, symmetric
    target: csr_array  # [K, K] B
    p: Array  # [N] float64, positive, with sum one
    q: Array  # [K]


class Point(NamedTuple):
    """Where a descent has come."""

    table: Array  # [N, K] log T, in nats, float32
    plan: Array  # [N, K] T
    cost: float  # the discrepancy of T
    history: list[Step]
    converged: bool


def transport(problem: Problem, distance: Array, partner: Array, max_iter: int) -> Point:
    """The best plan that is found from the profiles, from an assignment and from no knowledge.

    Args:
        problem: graphs and masses.
        distance: [N, K] squared distances of the nodes' profiles, in any unit.
        partner: [max(N, K)] an assignment, as between graphs that were padded to one size.
        max_iter: the most steps, after trials of forty.

    Returns:
        A plan whose marginals are exact.
    """
    problem = problem._replace(
        source=problem.source.astype(np.float32), target=problem.target.astype(np.float32)
    )
    starts = {
        "independent": _independent(problem),
        "assignment": _mostly(problem, partner),
        "profiles": _likely(problem, distance, 0.1),
        "sharp profiles": _likely(problem, distance, 0.02),
    }
    steepest = [float(_gradient(problem, np.exp(start)).max()) for start in starts.values()]
    largest = max(*steepest, 1e-30)  # zero without edges
    trials = [
        _descend(problem, start, epsilon * largest, min(_TRIAL, max_iter), name)
        for name, start in starts.items()
        for epsilon in _EPSILONS
    ]
    trials.sort(key=lambda trial: trial.cost)
    finals = [_go_on(problem, trial, max_iter) for trial in trials[:2]]
    best = min(finals, key=lambda final: final.cost)
    plan = round_to_marginals(best.plan.astype(np.float64), problem.p, problem.q)
    return best._replace(plan=plan, cost=discrepancy(problem, plan))


def _constant_part(problem: Problem) -> float:
    """What the discrepancy of every plan with these marginals has in common."""
    squares = (each.astype(np.float64).power(2) for each in (problem.source, problem.target))
    masses = (problem.p, problem.q)
    return float(sum(mass @ (square @ mass) for square, mass in zip(squares, masses, strict=True)))


def _gradient(problem: Problem, plan: Array) -> Array:
    """A T B [N, K]."""
    return (problem.target @ (problem.source @ plan).T).T


def discrepancy(problem: Problem, plan: Array) -> float:
    """The sum of |A_ik - B_jl|^2 T_ij T_kl."""
    matched = _inner(_gradient(problem, plan), plan)
    return max(0.0, _constant_part(problem) - 2 * matched)


def _independent(problem: Problem) -> Array:
    """Logarithms of p q^T."""
    return np.log(problem.p)[:, None].astype(np.float32) + np.log(problem.q).astype(np.float32)


def _likely(problem: Problem, distance: Array, temperature: float) -> Array:
    """Logarithms of the entropic plan by distance [N, K], at a temperature to its mean."""
    mean = float(distance.mean(dtype=np.float64))
    if mean == 0:
        return _independent(problem)
    table = _independent(problem) - distance / np.float32(temperature * mean)
    return _project(problem, table)[0]


def _mostly(problem: Problem, partner: Array) -> Array:
    """Logarithms of a plan that sends nine tenths to partners, as far as masses allow."""
    sizes = len(problem.p), len(problem.q)
    rows = np.flatnonzero(partner[: sizes[0]] < sizes[1])
    columns = partner[rows]
    plan = 0.1 * np.exp(_independent(problem))
    plan[rows, columns] += 0.9 * np.minimum(problem.p[rows], problem.q[columns])
    return _project(problem, np.log(plan))[0]


def _go_on(problem: Problem, trial: Point, max_iter: int) -> Point:
    """The same descent, from where a trial has stopped."""
    left = max_iter - len(trial.history)
    if trial.converged or left <= 0:
        return trial
    last = trial.history[-1]
    found = _descend(problem, trial.table, last.epsilon, left, last.stage)
    return found._replace(history=trial.history + found.history)


def _descend(
    problem: Problem, start: Array, temperature: float, max_iter: int, stage: str
) -> Point:
    """Proximal point steps from log T [N, K], until the discrepancy stops falling."""
    history: list[Step] = []
    base, converged = _constant_part(problem), False
    table, plan = start, np.exp(start)
    slope = _gradient(problem, plan)
    cost, since = base - 2 * _inner(slope, plan), 0
    for _ in range(max_iter):
        table, error = _project(problem, table + slope * np.float32(2 / temperature))
        plan = np.exp(table)
        slope = _gradient(problem, plan)
        last, cost = cost, base - 2 * _inner(slope, plan)
        sharpness = float(plan.max(1).sum(dtype=np.float64))
        history.append(Step(stage, temperature, max(0.0, cost), error, sharpness))
        since = since + 1 if last - cost <= 1e-6 * base else 0
        if since == 3:
            converged = True
            break
    return Point(table, plan, max(0.0, cost), history, converged)


def _inner(first: Array, second: Array) -> float:
    """<F, S> with sums of rows in float32 and of rows' sums in float64."""
    return float(np.einsum("ij,ij->i", first, second).sum(dtype=np.float64))


def _project(problem: Problem, table: Array, max_steps: int = _INNER) -> tuple[Array, float]:
    """Scale exp(table) to the marginals: log of the plan, and the error of its columns."""
    table = table - table.max(1, keepdims=True)
    kernel = np.maximum(np.exp(table), _FLOOR)
    p, q = problem.p.astype(np.float32), problem.q.astype(np.float32)
    right = np.ones_like(q)
    for step in range(1, max_steps + 1):
        left = p / (kernel @ right)
        reached = left @ kernel
        error = float(np.abs(reached * right - q).sum(dtype=np.float64))
        # Plans between masses that differ settle slowly, and must not gain by missing them.
        if (step > _LEAST_INNER and error < _ERROR) or step == max_steps:
            break
        right = q / np.maximum(reached, _FLOOR)
    return np.log(kernel) + np.log(left)[:, None] + np.log(right), error
