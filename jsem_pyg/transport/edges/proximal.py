r"""Dense plans between sparse costs: for graphs of different sizes or masses.

The discrepancy of a plan T with the marginals p and q is

.. math::
    \sum |A_{ik} - B_{jl}|^2 T_{ij} T_{kl} =
        p^\top A^{\circ 2} p + q^\top B^{\circ 2} q - 2 \langle A T B, T \rangle

so its gradient is two sparse products on a dense plan. Proximal steps
(:mod:`jsem_pyg.transport.sinkhorn.proximal`) descend from several starts, and the best plan is
rounded onto its marginals.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from ..plan.plan import Step
from ..sinkhorn.dense import entropic_plan, round_to_marginals
from ..sinkhorn.proximal import ProximalState, proximal_steps

Array = NDArray[Any]

_SETTLED = 1e-4  # of the mass moves in a step that is the last
_ASSIGNED = 0.9  # of the mass goes to partners in a plan that begins at an assignment
_ONE_START = 1 << 22  # pairs, beyond which an assignment of most of the mass is the only start
_TOL, _MOST = 1e-6, 1000  # marginal error and iterations of the last scaling


class Problem(NamedTuple):
    """Two weighted graphs with masses."""

    source: csr_array  # [N, N] A, symmetric
    target: csr_array  # [K, K] B
    p: Array  # [N] float64, positive, with sum one
    q: Array  # [K]


class Point(NamedTuple):
    """State of a descent."""

    plan: Array  # [N, K] T
    cost: float  # the discrepancy of T
    history: list[Step]  # a step for each start
    converged: bool


def transport(problem: Problem, partner: Array, max_iter: int) -> Point:
    """The better plan, with exact marginals, from an assignment and from the independent plan.

    `partner` [N] is -1 for none, and `max_iter` the most steps from either. Of 60 small pairs of
    which partners could take nine tenths of the mass, the independent plan led to a better one for
    five, by less than a hundredth: large pairs begin at such an assignment alone.
    """
    rows = np.flatnonzero(partner >= 0)
    taken = np.minimum(problem.p[rows], problem.q[partner[rows]])
    starts = {"assignment": _assigned(problem, rows, partner[rows], taken)}
    if taken.sum() < _ASSIGNED or len(problem.p) * len(problem.q) <= _ONE_START:
        starts["independent"] = torch.zeros_like(starts["assignment"])
    p, q = (torch.from_numpy(mass).float()[None] for mass in (problem.p, problem.q))
    single = problem._replace(
        source=problem.source.astype(np.float32), target=problem.target.astype(np.float32)
    )
    states = {name: ProximalState.begin(each[None], p, q) for name, each in starts.items()}
    plans = {name: each.scaled() for name, each in states.items()}
    gradient = _Gradient(single, 1.0)
    # One temperature for all, the largest entry of a first gradient: warm enough that one Sinkhorn
    # iteration a step keeps plans near their marginals.
    unit = max(*(float(gradient(each).max()) for each in plans.values()), 1e-30)
    gradient = _Gradient(single, unit)
    points = [
        _descend(problem, name, states[name], plan, gradient, max_iter)
        for name, plan in plans.items()
    ]
    best = min(points, key=lambda each: each.cost)
    return best._replace(history=[step for each in points for step in each.history])


def _assigned(problem: Problem, rows: Array, columns: Array, taken: Array) -> Tensor:
    """The start that sends nine tenths of the mass that partners can take [R] to them."""
    plan = (1 - _ASSIGNED) * np.outer(problem.p, problem.q)
    plan[rows, columns] += _ASSIGNED * taken
    return torch.from_numpy(plan).float().log2()


def discrepancy(problem: Problem, plan: Array) -> float:
    """The sum of |A_ik - B_jl|^2 T_ij T_kl."""
    squares = (each.power(2) for each in (problem.source, problem.target))
    masses = (problem.p, problem.q)
    constant = sum(mass @ (square @ mass) for square, mass in zip(squares, masses, strict=True))
    return max(0.0, float(constant - 2 * np.vdot(_product(problem, plan), plan)))


def _product(problem: Problem, plan: Array) -> Array:
    """A T B [N, K]."""
    return (problem.target @ (problem.source @ plan).T).T


class _Gradient(NamedTuple):
    """A T B in float32, of one plan."""

    problem: Problem
    unit: float

    def __call__(self, plan: Tensor) -> Tensor:
        found = torch.from_numpy(np.ascontiguousarray(_product(self.problem, plan[0].numpy())))
        return found.div_(self.unit)[None]

    def take(self, index: Tensor) -> "_Gradient":
        return self


def _descend(
    problem: Problem,
    name: str,
    state: ProximalState,
    plan: Tensor,
    gradient: _Gradient,
    max_iter: int,
) -> Point:
    p, q = state.p[0, :, 0], state.q[0, 0]
    plan, settled = proximal_steps(state, plan, gradient, [1.0] * max_iter, _SETTLED)
    # Steps miss the marginals a little, and must not gain by that.
    table, _ = entropic_plan(plan[0].clamp(min=1e-30).log(), p, q, 0 * q, _TOL, _MOST)
    scaled, masses = table.exp().double(), [torch.from_numpy(each) for each in problem[2:]]
    error = sum(float((scaled.sum(1 - k) - mass).abs().sum()) for k, mass in enumerate(masses))
    exact = round_to_marginals(scaled, *masses).numpy()
    cost, sharpness = discrepancy(problem, exact), float(exact.max(1).sum())
    step = Step(name, gradient.unit, cost, error, sharpness)
    return Point(exact, cost, [step], bool(settled[0]))
