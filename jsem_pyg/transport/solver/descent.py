"""Plans at one temperature: the scores of the moments, Sinkhorn's iteration, the moments again.

At a temperature epsilon the plan of moments M has the scores Z A(M) V^T / epsilon; Sinkhorn's
iteration finds its potentials, and the plan has new moments. Several plans are solved at once.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..plan.plan import Plan, Step
from ..plan.scores import FactoredScores, average
from ..problem.problem import LOG2E, Problem
from ..sinkhorn.loop import Kernel, Scaling, sinkhorn
from ..sinkhorn.newton import newton
from .schedule import SCHEDULE

_EXACT = 1e-8  # marginal error of small plans
_MASS_BITS = 128.0  # by which masses may differ
_LEAST_MOMENTS = 1e-30  # that a change is compared with
_INDEPENDENT = 1e-4  # moments of p q^T, of coordinates whose covariance has the norm one


@dataclass(frozen=True, eq=False)
class State:
    """S descents: leading dimensions [S], or none for a single one."""

    moments: Tensor  # [S, R, R'] float64
    psi: Tensor  # [S, K] potentials of the columns relative to their masses, in bits times epsilon
    epsilon: Tensor  # [S] float64
    f: Tensor  # [S, N]
    energy: Tensor  # [S] float64
    error: Tensor  # [S] the mass by which columns miss their constraint
    sharpness: Tensor  # [S] the mean over the mass of the largest share of a row
    moved: Tensor  # [S] relative difference of the plan's moments and of its scores' moments

    def like(self, z: Tensor) -> "State":
        """Take potentials of the type of the coordinates `z`."""
        return replace(self, psi=self.psi.to(z), f=self.f.to(z))

    def take(self, index: Tensor | int | slice | None) -> "State":
        """Take some of the descents; None makes a batch of a single one."""
        return State(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    def step(self, stage: str) -> Step:
        """Report a single descent."""
        numbers = (self.epsilon, self.energy, self.error, self.sharpness)
        return Step(stage, *(float(each) for each in numbers))


@dataclass(frozen=True)
class Budget:
    """Stopping rule of one temperature."""

    tol: float = 1e-3  # of the marginal error, and of the moments' relative change
    passes: int = 4  # of Sinkhorn's iteration, before the moments are renewed
    updates: int = 5  # of the moments, at most
    is_careful: bool = False  # see `sinkhorn`; for a single descent


COOLING = Budget(tol=SCHEDULE.cooling_tol, updates=SCHEDULE.cooling_updates)


def begin(problem: Problem, moments: Tensor, epsilon: Tensor) -> State:
    """Make states that begin at moments [S, R, R'] and temperatures [S]."""
    like, shape = problem.source.z, moments.shape[:-2]
    rows, columns = problem.shape
    nothing = moments.new_full(shape, torch.inf)
    psi, f = like.new_zeros(*shape, columns), like.new_zeros(*shape, rows)
    return State(moments, psi, epsilon, f, *(nothing,) * 4)


def begin_from_plan(problem: Problem, plan: Plan, epsilon: float, unit: float) -> State:
    """Make a state that begins at a plan between these points, at a temperature.

    The coordinates may be other ones; `unit` is a squared cost of the problem in
    the unit of the plan's temperature. If that one is far from `epsilon`, potentials begin at zero.
    Raises a ValueError if the plan has another shape.
    """
    check_shape_of_start(plan, problem.shape)
    moments = (problem.source.z.T @ average(plan.scores, problem.target.z)).double()
    state = begin(problem, moments, moments.new_tensor(epsilon))
    warmth = plan.epsilon / unit
    is_near = epsilon / SCHEDULE.far < warmth < SCHEDULE.far * epsilon
    if not is_near or not isinstance(plan.scores, FactoredScores):
        return state
    # Scores determine the potentials of columns only up to terms that are linear in the columns'
    # vectors; so their means over the rows are compared.
    own = make_kernel(problem, replace(state, epsilon=state.epsilon.new_tensor(warmth)))
    p, scores = problem.source.mass.double(), plan.scores
    wanted = scores.g.double() + scores.v.double() @ (p @ scores.u.double())
    psi = wanted - own.bias.double() - own.v.double() @ (p @ own.u.double())
    psi = torch.where(problem.target.mass > 0, psi * warmth, 0)
    return replace(state, psi=psi.to(state.psi))


def check_shape_of_start(plan: Plan, shape: tuple[int, int]) -> None:
    """Raise a ValueError unless a plan to go on from has the shape of a problem."""
    if plan.shape != shape:
        raise ValueError(
            f"Expected 'starts' to be a plan of {shape[0]} x {shape[1]} points "
            f"(got {plan.shape[0]} x {plan.shape[1]})."
        )


def make_kernel(problem: Problem, state: State) -> Kernel:
    """Compute the scores of moments in bits."""
    source, target = problem.source, problem.target
    factor = problem.coupling.scores(state.moments) * (LOG2E / state.epsilon)[..., None, None]
    u = source.z @ factor.to(source.z)
    return Kernel(u, target.z, target.log2_mass, source.log2_mass, target.log2_mass)


def settle(problem: Problem, state: State, budget: Budget) -> State:
    """Work on plans at their temperatures until they settle, or the budget is spent.

    Every update of the moments lowers the energy.
    """
    for _ in range(budget.updates):
        state = renewed(problem, state, scale(problem, state, budget))
        if float(state.moved.max()) < budget.tol and float(state.error.max()) < budget.tol:
            break
    return state


def renewed(problem: Problem, state: State, found: Scaling) -> State:
    """Compute the moments of the plan that :func:`scale` found for a state."""
    done = found.done
    moments = (problem.source.z.mT @ done.average).double()
    old, now = state.moments.flatten(-2), moments.flatten(-2)
    size = old.norm(dim=-1).clamp(min=_LEAST_MOMENTS)
    return State(
        moments=moments,
        psi=found.following * state.epsilon[..., None].to(found.psi),
        epsilon=state.epsilon,
        f=done.f,
        energy=problem.coupling.energy(moments),
        error=found.error,
        sharpness=(done.peak @ problem.source.mass).double(),
        moved=(now - old).norm(dim=-1) / size,
    )


def scale(problem: Problem, state: State, budget: Budget) -> Scaling:
    """Scale the plan of a state's moments to its marginals, by Sinkhorn's iteration."""
    kernel, epsilon = make_kernel(problem, state), state.epsilon[..., None]
    psi = state.psi / epsilon.to(state.psi)
    if problem.is_small:
        tol = min(0.01 * budget.tol, _EXACT) if budget.is_careful else budget.tol
        psi = newton(kernel, psi, tol, budget.is_careful)
        budget = Budget(passes=1)  # which measures the plan
    # Potentials differ by no more than scores and masses do.
    limit = 2 * problem.largest_score / epsilon + _MASS_BITS
    return sinkhorn(
        kernel,
        psi,
        problem.target.z,
        problem.one_pass,
        tol=budget.tol,
        passes=budget.passes,
        limit=limit.to(state.psi),
        is_careful=budget.is_careful,
    )


def score(problem: Problem, states: State) -> Tensor:
    """Compute what states are compared by: energy, or more than any if they miss the marginals.

    The independent plan comes last if it is a saddle, see `Problem.has_saddle`: it meets the
    marginals where sharp plans miss them at first, and its energy is the highest.
    """
    rate = torch.where(states.error < SCHEDULE.feasible, states.energy, 1e30 * states.error)
    return torch.where(is_independent(states), 2e30, rate) if problem.has_saddle else rate


def is_independent(states: State) -> Tensor:
    """Find the states whose moments are zero, as the moments of p q^T."""
    return states.moments.flatten(-2).norm(dim=-1) < _INDEPENDENT
