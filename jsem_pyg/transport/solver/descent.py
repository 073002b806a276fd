"""Plans at one temperature: the scores of the moments, Sinkhorn's iteration, the moments again.

At a temperature epsilon the plan of moments M has the scores Z A(M) V^T / epsilon; Sinkhorn's
iteration finds its potentials, and the plan has new moments. Several plans are solved at once.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..plan.plan import Plan, Step
from ..plan.scores import FactoredScores, average, row_sums
from ..problem.problem import LOG2E, Problem, second_moments
from ..problem.relaxation import held
from ..sinkhorn.anderson import Mixer
from ..sinkhorn.loop import Kernel, Scaling, sinkhorn
from ..sinkhorn.newton import newton
from .schedule import SCHEDULE

_EXACT = 1e-8  # marginal error of small plans
_MASS_BITS = 128.0  # by which masses may differ
_LEAST_MOMENTS = 1e-30  # that a change is compared with
_INDEPENDENT = 1e-4  # moments of p q^T, of coordinates whose covariance has the norm one


@dataclass(frozen=True, eq=False)
class State:
    """S descents: leading dimensions [S], or none for a single one.

    The sides include the dummy points of a partial plan.
    """

    moments: Tensor  # [S, R, R'] float64
    psi: Tensor  # [S, K] potentials of the columns relative to their masses, in bits times epsilon
    epsilon: Tensor  # [S] float64
    f: Tensor  # [S, N]
    energy: Tensor  # [S] float64
    error: Tensor  # [S] the mass by which columns miss their constraint
    peak: Tensor  # [S] the mean over the mass of the largest share of a row
    moved: Tensor  # [S] relative difference of the plan's moments and of its scores' moments
    sent: Tensor  # [S, r, r] float64, second moments of the masses that leave
    received: Tensor  # [S, s, s] of the masses that arrive

    def like(self, z: Tensor) -> "State":
        """Take potentials of the type of the coordinates `z`."""
        return replace(self, psi=self.psi.to(z), f=self.f.to(z))

    def take(self, index: Tensor | int | slice) -> "State":
        """Take some of the descents."""
        return State(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    def step(self, stage: str) -> Step:
        """Report a single descent."""
        numbers = (self.epsilon, self.energy, self.error, self.peak)
        return Step(stage, *(float(each) for each in numbers))


@dataclass(frozen=True)
class Effort:
    """Stopping rule of one temperature."""

    tol: float = 1e-3  # of the marginal error, and of the moments' relative change
    passes: int = 4  # of Sinkhorn's iteration, before the moments are renewed
    updates: int = 5  # of the moments, at most
    is_careful: bool = False  # see `sinkhorn`; for a single descent


COOLING = Effort(tol=SCHEDULE.cooling_tol, updates=SCHEDULE.cooling_updates)


def begin(problem: Problem, moments: Tensor, epsilon: Tensor) -> State:
    """Make states that begin at moments [S, R, R'] and temperatures [S]."""
    like, shape = problem.source.z, moments.shape[:-2]
    nothing = moments.new_full(shape, torch.inf)
    x, y = problem.coordinates
    seconds = second_moments(x, problem.source.mass), second_moments(y, problem.target.mass)
    source, target = problem.wide
    return State(
        moments,
        like.new_zeros(*shape, target.num_points),
        epsilon,
        like.new_zeros(*shape, source.num_points),
        *(nothing,) * 4,
        *(each.expand(*shape, -1, -1) for each in seconds),
    )


def begin_from_plan(problem: Problem, plan: Plan, epsilon: float, unit: float) -> State:
    """Make a state that begins at a plan between these points, at a temperature.

    The coordinates may be other ones; `unit` is a squared cost of the problem in
    the unit of the plan's temperature. If that one is far from `epsilon`, potentials begin at zero.
    Raises a ValueError if the plan has another shape.
    """
    if plan.shape != problem.shape:
        raise ValueError(
            f"Expected 'starts' to be a plan of {problem.shape[0]} x {problem.shape[1]} points "
            f"(got {plan.shape[0]} x {plan.shape[1]})."
        )
    moments = (problem.source.z.T @ average(plan.scores, problem.target.z)).double()
    state = begin(problem, moments, moments.new_tensor(epsilon))
    x, y = problem.coordinates
    if not problem.relaxation.fixes_rows:
        state = replace(state, sent=second_moments(x, row_sums(plan.scores)))
    if not problem.relaxation.fixes_columns:
        state = replace(state, received=second_moments(y, plan.scores.column_sums()))
    is_partial, warmth = problem.relaxation.mass is not None, plan.epsilon / unit
    is_near = epsilon / SCHEDULE.far < warmth < SCHEDULE.far * epsilon
    if is_partial or not is_near or not isinstance(plan.scores, FactoredScores):
        return state
    # Scores determine the potentials of columns only up to terms that are linear in the columns'
    # vectors; so their means over the rows are compared.
    own = make_kernel(problem, replace(state, epsilon=state.epsilon.new_tensor(warmth)))
    p, scores = problem.source.mass.double(), plan.scores
    wanted = scores.g.double() + scores.v.double() @ (p @ scores.u.double())
    psi = wanted - own.bias.double() - own.v.double() @ (p @ own.u.double())
    psi = torch.where(problem.target.mass > 0, psi * warmth, 0)
    return replace(state, psi=psi.to(state.psi))


def make_kernel(problem: Problem, state: State) -> Kernel:
    """Compute the scores of moments in bits, and the masses of the marginals."""
    source, target = problem.wide
    relaxation, z = problem.relaxation, source.z
    factor = problem.coupling.scores(state.moments) * (LOG2E / state.epsilon)[..., None, None]
    u, v = z @ factor.to(z), target.z
    rows, columns = (held(rho, state.epsilon) for rho in (relaxation.rows, relaxation.columns))
    log2_p, bias = source.log2_mass, target.log2_mass
    if relaxation.mass is not None:
        u, v = _with_dummies(problem, state, u, v)
    elif not relaxation.is_balanced:
        kept = 1 - rows[..., None].to(z)
        log2_p = log2_p - kept * _squares(problem, state, 0)
        bias = bias - _squares(problem, state, 1)
    return Kernel(u, v, bias, log2_p, target.log2_mass, rows, columns)


def _squares(problem: Problem, state: State, side: int) -> Tensor:
    """Compute what squared costs take away from the scores of one side's points, in bits."""
    second, x = (state.sent, state.received)[side], problem.coordinates[side]
    squares = problem.coupling.squares(x, second, problem.coupling.signs[side])
    return squares * (LOG2E / state.epsilon[..., None]).to(squares)


def _with_dummies(problem: Problem, state: State, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Add three columns to the vectors: squared costs of rows, of columns, and the two dummies.

    The score of a dummy with a point is zero; both dummies have so low a score that no mass goes
    from one to the other.
    """
    a, b = (pad(-_squares(problem, state, side), (0, 1))[..., None] for side in (0, 1))
    is_dummy = [
        pad(torch.ones_like(each[..., :1, :]), (0, 0, each.size(-2) - 1, 0)) for each in (a, b)
    ]
    far = -4 * _largest_potential(problem, state)[..., None].to(u)
    v = v.expand(*b.shape[:-2], *v.shape[-2:])
    return (
        torch.cat([u, a, 1 - is_dummy[0], is_dummy[0]], -1),
        torch.cat([v, 1 - is_dummy[1], b, far * is_dummy[1]], -1),
    )


def _largest_potential(problem: Problem, state: State) -> Tensor:
    """Bound potentials, [S, 1] bits: they differ by no more than scores and masses do."""
    return 2 * problem.largest_score / state.epsilon[..., None] + _MASS_BITS


def settle(problem: Problem, state: State, effort: Effort) -> State:
    """Work on plans at their temperatures until they settle, or the effort is spent.

    With fixed marginals every update lowers the energy. Otherwise the squares of the costs are a
    convex part of it. Full steps of the moments would overshoot it: they are damped, or mixed.
    """
    mixer = Mixer(torch.ones_like(_all_moments(state)))
    damping, best = SCHEDULE.damping, (torch.inf, torch.empty(0), torch.empty(0))
    for _ in range(effort.updates):
        before = state
        state = renewed(problem, state, scale(problem, state, effort))
        if float(state.moved.max()) < effort.tol and float(state.error.max()) < effort.tol:
            break
        if problem.relaxation.is_balanced:
            continue
        x = _all_moments(before)
        residual = _all_moments(state) - x
        if not effort.is_careful:
            count = state.moments.flatten(-2).size(-1)
            residual[..., count:] *= SCHEDULE.damping
            x = x + residual
        elif float(state.error) > SCHEDULE.lost:
            x = x + damping * residual
        elif (size := float(residual.norm())) > SCHEDULE.worse * best[0]:
            damping /= 2
            mixer.forget()
            x = best[1] + damping * best[2]
        else:
            best = min(best, (size, x, residual), key=lambda each: each[0])
            damping = min(SCHEDULE.damping, 1.3 * damping)
            x = mixer.next(x, residual, damping)
        state = _with_moments(state, x)
    return state


def _all_moments(state: State) -> Tensor:
    """Join everything that scores are made of: [S, R R' + r r + s s]."""
    parts = (state.moments, state.sent, state.received)
    return torch.cat([part.flatten(-2) for part in parts], -1)


def _with_moments(state: State, x: Tensor) -> State:
    """Take other moments [S, R R' + r r + s s]."""
    old = (state.moments, state.sent, state.received)
    parts = x.split([part.flatten(-2).size(-1) for part in old], -1)
    moments, sent, received = (
        part.reshape(each.shape) for part, each in zip(parts, old, strict=True)
    )
    return replace(state, moments=moments, sent=sent, received=received)


def renewed(problem: Problem, state: State, found: Scaling) -> State:
    """Compute the moments of the plan that :func:`scale` found for a state."""
    relaxation, done = problem.relaxation, found.done
    averages = done.average[..., : problem.target.z.size(1)]
    moments = (problem.wide[0].z.mT @ averages).double()
    energy, sent, received = problem.coupling.energy(moments), state.sent, state.received
    row_mass, column_mass = masses_of(problem, found)
    x, y = problem.coordinates
    if not relaxation.fixes_rows:
        sent = second_moments(x, row_mass)
        energy = energy + problem.coupling.self_energy(sent, 0)
    if not relaxation.fixes_columns:
        received = second_moments(y, column_mass)
        energy = energy + problem.coupling.self_energy(received, 1)
    peak = done.peak[..., : problem.shape[0]]
    new = State(
        moments=moments,
        psi=found.following * state.epsilon[..., None].to(found.psi),
        epsilon=state.epsilon,
        f=done.f,
        energy=energy,
        error=found.error,
        peak=((peak * row_mass).sum(-1) / row_mass.sum(-1)).double(),
        moved=state.moved,
        sent=sent,
        received=received,
    )
    old, now = (
        each.moments.flatten(-2) if relaxation.is_balanced else _all_moments(each)
        for each in (state, new)
    )
    size = old.norm(dim=-1).clamp(min=_LEAST_MOMENTS)
    return replace(new, moved=(now - old).norm(dim=-1) / size)


def scale(problem: Problem, state: State, effort: Effort) -> Scaling:
    """Scale the plan of a state's moments to its marginals, by Sinkhorn's iteration."""
    kernel, target = make_kernel(problem, state), problem.wide[1]
    signal = target.z
    if not problem.relaxation.fixes_rows:  # their masses are averages of ones
        ones = torch.ones_like(problem.target.z[:, :1])
        ones = pad(ones, (0, 0, 0, target.num_points - ones.size(0)))
        signal = torch.cat([signal, ones], 1)
    psi = state.psi / state.epsilon[..., None].to(state.psi)
    if problem.is_small:
        tol = min(0.01 * effort.tol, _EXACT) if effort.is_careful else effort.tol
        psi = newton(kernel, psi, tol, effort.is_careful)
        effort = Effort(passes=1)  # which measures the plan
    return sinkhorn(
        kernel,
        psi,
        signal,
        problem.one_pass,
        tol=effort.tol,
        passes=effort.passes,
        limit=_largest_potential(problem, state).to(state.psi),
        is_careful=effort.is_careful,
        is_partial=problem.relaxation.mass is not None,
    )


def masses_of(problem: Problem, found: Scaling) -> tuple[Tensor, Tensor]:
    """Find the masses that leave points [S, N] and arrive at points [S, K], without dummies."""
    done, (rows, columns) = found.done, problem.shape
    sent, received = problem.source.mass, done.column_mass[..., :columns]
    if not problem.relaxation.fixes_rows:
        sent = done.average[..., :rows, -1]
    if problem.relaxation.mass is not None:
        log2_mass = problem.target.log2_mass + found.psi[..., :columns]  # of the dummy's row
        received = received - (done.f[..., -1:] + log2_mass).double().exp2()
    return sent, received


def averages(problem: Problem, state: State) -> tuple[Tensor, Tensor]:
    """Compute T V [N, R'] and T 1 [N] of a single state's plan, float64."""
    found = scale(problem, state, Effort(passes=1))
    rows, width = problem.shape[0], problem.target.z.size(1)
    mass = masses_of(problem, found)[0].double()
    return found.done.average[:rows, :width].double(), mass


def rating(problem: Problem, states: State) -> Tensor:
    """Compute what states are compared by: energy, or more than any if they miss the marginals.

    The independent plan comes last if it is a saddle, see `Problem.has_saddle`: it meets the
    marginals where sharp plans miss them at first, and its energy is the highest.
    """
    rate = torch.where(states.error < SCHEDULE.feasible, states.energy, 1e30 * states.error)
    return torch.where(is_independent(states), 2e30, rate) if problem.has_saddle else rate


def is_independent(states: State) -> Tensor:
    """Find the states whose moments are zero, as the moments of p q^T."""
    return states.moments.flatten(-2).norm(dim=-1) < _INDEPENDENT
