"""Plans at one temperature, and down a ladder of temperatures; many starts at once.

At a temperature epsilon the plan of moments M has the scores Z A(M) V^T / epsilon; Sinkhorn's
iteration finds its potentials, and the plan has new moments. Every pass over the entries gives
all of it at once: row potentials, column masses and moments.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..problem.problem import LOG2E, Problem, second_moments
from ..problem.relaxation import held, largest_potential
from ..sinkhorn.anderson import Mixer

_MASS_BITS = 128.0  # by which masses may differ
_LOST = 2.0**-40  # the share of its mass with which a column counts as lost
_SMALLEST = 1e-30  # of moments that a change is compared with

Pass = Callable[..., Any]  # a `sinkhorn_pass` of `jsem_pyg.kernels.sinkhorn`


@dataclass(frozen=True, eq=False)
class State:
    """Where S descents are: leading dimensions [S], or none for a single one."""

    moments: Tensor  # [S, R, R'] float64
    psi: Tensor  # [S, K] potentials of the columns relative to their masses, in bits times epsilon
    epsilon: Tensor  # [S] float64
    f: Tensor  # [S, N]
    energy: Tensor  # [S] float64
    error: Tensor  # [S] sum_j |c_j - q_j|, or what else the columns miss
    peak: Tensor  # [S] the mean over the mass of the largest share of a row
    moved: Tensor  # [S] by how much the moments of the last step differ, relatively
    cap: Tensor  # [S] float64, of the rows' potentials in bits, above their masses
    sent: Tensor  # [S, r, r] float64, second moments of the masses that leave
    received: Tensor  # [S, s, s] of the masses that arrive

    def take(self, index: Tensor | int | slice) -> "State":
        """Some of the descents."""
        return State(*(getattr(self, name)[index] for name in self.__dataclass_fields__))


def begin(problem: Problem, moments: Tensor, epsilon: Tensor) -> State:
    """Descents that begin at moments [S, R, R'], at temperatures [S]."""
    like = problem.source.z
    shape = moments.shape[:-2]
    nothing = moments.new_full(shape, torch.inf)
    x, y = problem.coordinates
    seconds = second_moments(x, problem.source.mass), second_moments(y, problem.target.mass)
    return State(
        moments,
        like.new_zeros(*shape, problem.target.num_points),
        epsilon,
        like.new_zeros(*shape, problem.source.num_points),
        *(nothing,) * 5,
        *(each.expand(*shape, -1, -1) for each in seconds),
    )


def row_vectors(problem: Problem, moments: Tensor, epsilon: Tensor) -> Tensor:
    """U [S, N, R'], the scores' left factor, in bits."""
    factor = problem.coupling.scores(moments) * (LOG2E / epsilon)[..., None, None]
    return problem.source.z @ factor.to(problem.source.z)


def column_potential(problem: Problem, state: State) -> Tensor:
    """G [S, K] in bits: masses, potentials, and what squared costs of free columns add."""
    g = state.psi / state.epsilon[..., None].to(state.psi) + problem.target.log2_mass
    if problem.relaxation.fixes_columns:
        return g
    return g - _squares(problem, state, 1)


def row_masses(problem: Problem, state: State) -> Tensor:
    """log2 of the masses [S, N] that rows are held to, with what squared costs add."""
    if problem.relaxation.fixes_rows:
        return problem.source.log2_mass
    kept = 1 - held(problem.relaxation.rows, state.epsilon)[..., None]
    bias = _squares(problem, state, 0)
    return problem.source.log2_mass - (kept * bias.double()).to(bias)


def _squares(problem: Problem, state: State, side: int) -> Tensor:
    """What squared costs take from the scores of one side's points, in bits."""
    second = (state.sent, state.received)[side]
    squares = problem.coupling.squares(
        problem.coordinates[side], second, problem.coupling.signs[side]
    )
    return squares * (LOG2E / state.epsilon[..., None]).to(squares)


@dataclass(frozen=True)
class Effort:
    """How hard a temperature is worked on."""

    tol: float = 1e-3  # of the marginal error, and of the moments' relative change
    sinkhorn_passes: int = 4  # before the moments are renewed
    updates: int = 5  # of the moments, at most


def settle(problem: Problem, state: State, one_pass: Pass, effort: Effort) -> State:
    """Work on plans at their temperatures until they settle, or the effort is spent."""
    for _ in range(effort.updates):
        before = state.moments
        state = _renew(problem, state, one_pass, effort)
        size = before.flatten(-2).norm(dim=-1).clamp(min=_SMALLEST)
        moved = (state.moments - before).flatten(-2).norm(dim=-1) / size
        state = replace(state, moved=moved)
        if float(moved.max()) < effort.tol and float(state.error.max()) < effort.tol:
            break
    return state


def _renew(problem: Problem, state: State, one_pass: Pass, effort: Effort) -> State:
    """Sinkhorn's iteration on the scores of the moments, and the moments of its plan."""
    target, relaxation = problem.target, problem.relaxation
    q = target.mass
    u = row_vectors(problem, state.moments, state.epsilon)
    row_mass = row_masses(problem, state)
    bias = column_potential(problem, replace(state, psi=torch.zeros_like(state.psi)))
    scale = state.epsilon[..., None].to(u)
    damping = held(relaxation.rows, state.epsilon)
    share = held(relaxation.columns, state.epsilon)[..., None].to(u)
    # The masses of rows that are not fixed are their averages of ones.
    ones = torch.ones_like(target.z[:, : 0 if relaxation.fixes_rows else 1])
    whole = torch.cat([ones, target.z], 1)
    limit = 2 * problem.largest_score + _MASS_BITS * scale
    mixer = Mixer(q)
    psi, cap, is_done = state.psi, state.cap, False
    for index in range(effort.sinkhorn_passes):
        is_last = is_done or index == effort.sinkhorn_passes - 1
        # Only the last plan is asked for its moments, which take half of the time.
        asked = whole if is_last else ones
        done = one_pass(u, target.z, bias + psi / scale, row_mass, asked, damping, cap)
        residual = (q / done.column_mass.clamp(min=torch.finfo(q.dtype).tiny)).log2()
        residual = torch.where(q > 0, residual, 0).to(psi) * scale
        residual = share * (psi + residual) - psi
        if relaxation.mass is not None:
            residual = (psi + residual).clamp(max=0) - psi
        # How far the masses are from where they belong; of free columns nothing is asked.
        error = (q * (1 - (-residual.abs() / scale).exp2())).sum(-1).double()
        if relaxation.mass is not None:
            error = error + (done.column_mass.sum(-1) - relaxation.mass).abs()
        is_lost = done.column_mass < _LOST * q
        if relaxation.fixes_columns and bool((is_lost & (q > 0)).any()):
            # Its mass says nothing of its potential any more, but the column itself does.
            psi = _column_step(problem, u, done.f, one_pass) * scale
            mixer.forget()
        else:
            psi = mixer.next(psi, residual)
        # Potentials differ by no more than scores do; what is mixed may not know.
        psi = torch.minimum(torch.maximum(psi, -limit), limit)
        if relaxation.mass is not None:
            psi = psi.clamp(max=0)
            total = done.average[..., 0].clamp(min=torch.finfo(q.dtype).tiny).log2() - done.f
            cap = largest_potential(problem.source.log2_mass, total, relaxation.mass)
        if is_last:
            break
        is_done = float(error.max()) < effort.tol
    state = replace(state, psi=psi, f=done.f, error=error, cap=cap)
    return _plan_state(problem, state, done)


def _column_step(problem: Problem, u: Tensor, f: Tensor, one_pass: Pass) -> Tensor:
    """Potentials [S, K] of columns with exactly their masses, relative to these, in bits."""
    if u.dim() > 2:
        each = zip(u, f, strict=True)
        return torch.stack([_column_step(problem, *one, one_pass) for one in each])
    log2_q = problem.target.log2_mass
    whole, free = torch.ones(()), torch.tensor(torch.inf)  # the constraint is met, without a cap
    columns = one_pass(problem.target.z, u, f, log2_q, u[:, :0], whole, free)
    return torch.where(log2_q > -torch.inf, columns.f - log2_q, 0)


def _plan_state(problem: Problem, state: State, done: Any) -> State:
    """The state of the plan that a pass went over."""
    x, y = problem.coordinates
    fixes_rows = problem.relaxation.fixes_rows
    averages = done.average if fixes_rows else done.average[..., 1:]
    moments = (problem.source.z.mT @ averages).double()
    energy = problem.coupling.energy(moments)
    sent, received = state.sent, state.received
    row_mass = problem.source.mass
    if not fixes_rows:
        row_mass = done.average[..., 0]
        new = second_moments(x, row_mass)
        energy = energy + problem.coupling.self_energy(new, 0)
        sent = (sent + new) / 2
    if not problem.relaxation.fixes_columns:
        new = second_moments(y, done.column_mass)
        energy = energy + problem.coupling.self_energy(new, 1)
        received = (received + new) / 2  # a half step: its term is convex, that of G concave
    peak = (done.peak * row_mass).sum(-1) / row_mass.sum(-1)
    return replace(
        state, moments=moments, energy=energy, peak=peak.double(), sent=sent, received=received
    )


def plan_pass(problem: Problem, state: State, signal: Tensor, one_pass: Pass) -> Any:
    """A pass over the plan of a state, with what it makes of a signal [K, C]."""
    return one_pass(
        row_vectors(problem, state.moments, state.epsilon),
        problem.target.z,
        column_potential(problem, state),
        row_masses(problem, state),
        signal,
        held(problem.relaxation.rows, state.epsilon),
        state.cap,
    )


def in_turn(one_pass: Pass) -> Pass:
    """A pass of one plan as a pass of several, which differ in u [S, N, R] and g [S, K]."""

    def several(
        u: Tensor,
        v: Tensor,
        g: Tensor,
        log2_p: Tensor,
        y: Tensor,
        damping: Tensor,
        cap: Tensor,
    ) -> Any:
        if u.dim() == 2:
            return one_pass(u, v, g, log2_p, y, float(damping), float(cap))
        masses = log2_p.expand(u.shape[:-1])
        done = [
            one_pass(*each[:1], v, *each[1:3], y, float(each[3]), float(each[4]))
            for each in zip(u, g, masses, damping, cap, strict=True)
        ]
        return type(done[0])(*(torch.stack(parts) for parts in zip(*done, strict=True)))

    return several
