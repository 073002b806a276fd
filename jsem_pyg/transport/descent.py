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

from .anderson import Mixer
from .problem import LOG2E, Problem

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
    error: Tensor  # [S] sum_j |c_j - q_j|
    peak: Tensor  # [S] the mean over the mass of the largest share of a row
    moved: Tensor  # [S] by how much the moments of the last step differ, relatively

    def take(self, index: Tensor | int) -> "State":
        """Some of the descents."""
        return State(*(getattr(self, name)[index] for name in self.__dataclass_fields__))


def begin(problem: Problem, moments: Tensor, epsilon: Tensor) -> State:
    """Descents that begin at moments [S, R, R'], at temperatures [S]."""
    like = problem.source.z
    shape = moments.shape[:-2]
    nothing = moments.new_full(shape, torch.inf)
    return State(
        moments,
        like.new_zeros(*shape, problem.target.num_points),
        epsilon,
        like.new_zeros(*shape, problem.source.num_points),
        *(nothing,) * 4,
    )


def row_vectors(problem: Problem, moments: Tensor, epsilon: Tensor) -> Tensor:
    """U [S, N, R'], the scores' left factor, in bits."""
    factor = problem.coupling.scores(moments) * (LOG2E / epsilon)[..., None, None]
    return problem.source.z @ factor.to(problem.source.z)


def column_potential(problem: Problem, state: State) -> Tensor:
    """g [S, K] in bits."""
    return state.psi / state.epsilon[..., None].to(state.psi) + problem.target.log2_mass


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
    source, target = problem.source, problem.target
    p, q = source.mass, target.mass
    u = row_vectors(problem, state.moments, state.epsilon)
    scale = state.epsilon[..., None].to(u)
    mixer = Mixer(q)
    psi, is_done = state.psi, False
    for index in range(effort.sinkhorn_passes):
        is_last = is_done or index == effort.sinkhorn_passes - 1
        g = psi / scale + target.log2_mass
        # Only the last plan is asked for its moments, which take half of the time.
        done = one_pass(u, target.z, g, source.log2_mass, target.z[:, : None if is_last else 0])
        residual = (q / done.column_mass.clamp(min=torch.finfo(q.dtype).tiny)).log2()
        residual = torch.where(q > 0, residual, 0).to(psi)
        psi = mixer.next(psi, residual * scale)
        error = (done.column_mass - q).abs().sum(-1)
        if is_last:
            break
        is_done = float(error.max()) < effort.tol
    moments = (source.z.T @ done.average).double()
    return replace(
        state,
        psi=psi,
        f=done.f,
        moments=moments,
        energy=problem.coupling.energy(moments),
        error=error,
        peak=(done.peak * p).sum(-1).double(),
    )


def in_turn(one_pass: Pass) -> Pass:
    """A pass of one plan as a pass of several, which differ in u [S, N, R] and g [S, K]."""

    def several(u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, y: Tensor) -> Any:
        if u.dim() == 2:
            return one_pass(u, v, g, log2_p, y)
        done = [one_pass(each, v, potential, log2_p, y) for each, potential in zip(u, g)]
        return type(done[0])(*(torch.stack(parts) for parts in zip(*done)))

    return several
